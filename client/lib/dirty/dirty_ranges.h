/// Bytes of one file that were written and are not durable yet, by their offsets.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "client/lib/byte_range.h"
#include "client/lib/dirty/dirty_buffers.h"

namespace kintsugi::client {

/// Pieces do not overlap: a write goes over bytes that are here where they lie.
class DirtyRanges {
 public:
  /// Takes bytes as long as there are buffers; returns how many.
  size_t write(DirtyBuffers& buffers, uint64_t inode, uint64_t offset, std::span<const std::byte> bytes,
               int64_t modified_ns, bool kill_privileges);
  /// Takes a piece that does not overlap with the others.
  void add(DirtyPiece piece);
  /// Drops everything from `end` on.
  void cut(uint64_t end);

  /// Copies what is here of [offset, offset + into.size()) and takes it off `missing`, which is ordered and disjoint.
  void overlay(uint64_t offset, std::span<std::byte> into, std::vector<ByteRange>& missing) const;

  bool empty() const { return pieces_.empty(); }
  size_t buffers() const { return pieces_.size(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t end() const { return pieces_.empty() ? 0 : pieces_.rbegin()->second.end(); }
  int64_t modified_ns() const;  ///< time of the latest write
  /// As if everything had been written then: the file's time was set after it was written.
  void set_modified(int64_t modified_ns);
  bool kill_privileges() const;
  void keep_privileges();  ///< the file's mode was set after everything was written
  /// The contiguous runs, in order.
  std::vector<ByteRange> runs() const;
  /// The first contiguous run with at least `least` bytes, cut to at most `most` where a piece ends; empty: none.
  ByteRange long_run(uint64_t least, uint64_t most) const;
  /// The first byte from `offset` on that is here (UINT64_MAX: none), or not here.
  uint64_t next_data(uint64_t offset) const;
  uint64_t next_gap(uint64_t offset) const;
  /// Moves the pieces that lie within the range, at most `most` of them, to the result.
  DirtyRanges split(ByteRange range, size_t most);

  const std::map<uint64_t, DirtyPiece>& pieces() const { return pieces_; }

 private:
  std::map<uint64_t, DirtyPiece> pieces_;  ///< key: offset
  uint64_t bytes_ = 0;
};

}  // namespace kintsugi::client
