package dev.halcyon.engine.disagg.transfer;

import java.util.UUID;

/**
 * What a piece is sent with.
 *
 * @param transfer the transfer that it belongs to
 * @param number its number in that
 * @param stored whether its bytes lie in the order that both caches have
 * @param checksum CRC-32C of its bytes
 */
record PieceHeader(UUID transfer, int number, boolean stored, int checksum) {

  PieceHeader withChecksum(int newChecksum) {
    return new PieceHeader(transfer, number, stored, newChecksum);
  }
}
