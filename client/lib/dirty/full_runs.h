/// Runs of written bytes that fill stripes: worth being written out at once.
#pragma once

#include <cstdint>
#include <string>

#include "client/lib/dirty/dirty_ranges.h"

namespace kintsugi::client {

/// A look goes over all that is written, so there is one a megabyte only.
class FullRuns {
 public:
  /// `memory_bytes`: for what all files have written.
  explicit FullRuns(uint64_t memory_bytes) : memory_bytes_(memory_bytes) {}

  /// A contiguous run of full stripes, as many as a fair part of the memory holds. Empty: there is none, or it is too
  /// early to look.
  ByteRange find(const DirtyRanges& written, const std::string& policy);
  /// Something was taken out of what is written: the next find() looks.
  void look_anew() { next_check_bytes_ = 0; }

 private:
  uint64_t full_bytes(const std::string& policy);

  const uint64_t memory_bytes_;
  uint64_t next_check_bytes_ = 0;  ///< the next check happens when so many bytes have been written
  uint64_t full_bytes_ = 0;
  std::string policy_of_full_;
};

}  // namespace kintsugi::client
