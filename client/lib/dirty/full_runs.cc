#include "client/lib/dirty/full_runs.h"

#include <algorithm>

#include "common/base/math.h"
#include "erasure/policy.h"

namespace kintsugi::client {
namespace {

constexpr uint64_t kCheckEveryBytes = 1 << 20;  ///< bytes written between two checks
constexpr uint64_t kLayersInMemory = 4;         ///< full runs that fit into the memory for dirty data
constexpr uint64_t kUnknownRow = 6 << 20;

}  // namespace

ByteRange FullRuns::find(const DirtyRanges& written, const std::string& policy) {
  const uint64_t full = full_bytes(policy);
  if (written.bytes() < std::max(next_check_bytes_, full)) return {};
  const ByteRange run = written.long_run(full, full);
  if (run.length() == 0) next_check_bytes_ = written.bytes() + kCheckEveryBytes;
  return run;
}

uint64_t FullRuns::full_bytes(const std::string& policy) {
  if (full_bytes_ != 0 && policy_of_full_ == policy) return full_bytes_;
  policy_of_full_ = policy;
  const auto parsed = erasure::Policy::parse(policy);
  const uint64_t row = parsed ? uint64_t{parsed->k} * parsed->cell_bytes : kUnknownRow;
  full_bytes_ = std::max(row, round_down(memory_bytes_ / kLayersInMemory, row));
  return full_bytes_;
}

}  // namespace kintsugi::client
