package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Json;

/** Names and common fields of {@code disaggregated_params}. */
final class SplitFields {

  static final String NAME = "disaggregated_params";
  static final String TYPE = "request_type";
  static final String REQUEST_ID = "request_id";
  private static final String STYLE = "schedule_style";
  static final String PROMPTS = "prompts";
  static final String CONTEXT_ONLY = "context_only";
  static final String GENERATION_ONLY = "generation_only";
  private static final String CONTEXT_FIRST = "context_first";
  private static final String GENERATION_FIRST = "generation_first";

  private SplitFields() {}

  /** The fields of a request's disaggregated_params, which have to be of a type. */
  static Fields of(JsonNode node, String type) {
    if (node == null) {
      throw ApiException.invalid(NAME, "'" + NAME + "' is missing");
    }
    Fields fields = Fields.of(node, NAME);
    if (!type.equals(fields.text(TYPE))) {
      String name = fields.path(TYPE);
      throw ApiException.invalid(name, "'" + name + "' must be \"" + type + "\" here");
    }
    return fields;
  }

  /** Reads the name that a request has on both sides. */
  static String requestId(Fields fields) {
    String id = fields.text(REQUEST_ID);
    if (id == null || !id.matches("[\\x21-\\x7e]{1," + DisaggParams.MAX_REQUEST_ID + "}")) {
      String name = fields.path(REQUEST_ID);
      throw ApiException.invalid(
          name,
          "'"
              + name
              + "' must be a string of 1 to "
              + DisaggParams.MAX_REQUEST_ID
              + " printable ASCII characters without spaces");
    }
    return id;
  }

  /** Reads which side heard of the request first. */
  static ScheduleStyle style(Fields fields) {
    String text = fields.text(STYLE);
    if (text == null || text.equals(CONTEXT_FIRST)) {
      return ScheduleStyle.CONTEXT_FIRST;
    } else if (text.equals(GENERATION_FIRST)) {
      return ScheduleStyle.GENERATION_FIRST;
    }
    String name = fields.path(STYLE);
    throw ApiException.invalid(
        name, "'" + name + "' must be \"" + CONTEXT_FIRST + "\" or \"" + GENERATION_FIRST + "\"");
  }

  /** What the context side of a request is asked. */
  static ObjectNode contextOnly(String requestId) {
    return Json.object().put(TYPE, CONTEXT_ONLY).put(REQUEST_ID, requestId);
  }

  /** The same, to be offered before it is computed. */
  static ObjectNode contextOffered(String requestId) {
    return contextOnly(requestId).put(STYLE, GENERATION_FIRST);
  }
}
