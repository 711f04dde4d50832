package dev.halcyon.engine;

import java.util.Objects;

/**
 * One message of a conversation.
 *
 * @param role who speaks, as the checkpoint's chat template knows it: "system", "user", "assistant"
 * @param content what is said
 */
public record ChatMessage(String role, String content) {

  public ChatMessage {
    Objects.requireNonNull(role, "role");
    Objects.requireNonNull(content, "content");
  }

  public static ChatMessage system(String content) {
    return new ChatMessage("system", content);
  }

  public static ChatMessage user(String content) {
    return new ChatMessage("user", content);
  }

  public static ChatMessage assistant(String content) {
    return new ChatMessage("assistant", content);
  }
}
