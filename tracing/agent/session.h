/// One recording, from the first changed instruction to the last one that is given back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "tracing/agent/image.h"
#include "tracing/records/trace_memory.h"

namespace kintsugi::tracing {

/// The start of a recording that has all functions from the beginning.
inline constexpr std::string_view kEveryFunction = "all";

struct SessionOptions {
  std::string directory;
  /// What begins the recording: kEveryFunction, or the name of a function. Nothing is recorded before, and only what that function does can be
  /// reached from then on.
  std::string start;
  Mode mode = Mode::kLinear;
  uint64_t bytes = 64 << 20;
  /// Where that function begins, if `start` does not name it but says whose it is.
  const void* start_code = nullptr;
  bool everything = false;  ///< `start` has happened: all functions are recorded
  std::vector<RecordedValues> recorded = {};

  Status check() const;  ///< kInvalidArgument
};

/// A trace of a number that no other one of this process has.
struct NewTrace {
  uint32_t number = 0;
  std::string path;
  TraceMemory memory;
};

/// One at a time. Belongs to the thread of the agent; the traced threads continue meanwhile.
class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const Image& image, const SessionOptions& options);
  ~Session();  ///< as close(End::kDetached), unless it was closed
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Takes back what was changed and has the trace say why it ended. kInternal: a thread did not leave the payload; the memory of the
  /// session is left to it then.
  Status close(End end);
  /// Called again and again while the session is open: reads the clock, and takes the right to write code away that nobody used lately.
  void look_after();

  /// Writes what was recorded so far to a file of its own, for somebody who leaves while the recording goes on. Returns its path. REQUIRES:
  /// the mode is linear. kNoSpace: there is not so much memory.
  Result<std::string> copy(End end) const;

  bool started() const { return recording_->started.load_relaxed(); }
  bool full() const;
  const std::string& path() const { return path_; }
  uint32_t functions() const { return image_.sleds().functions; }
  uint32_t patched() const { return recording_->patched_count.load_relaxed(); }
  uint32_t met() const { return recording_->met_count.load_relaxed(); }
  /// Times that a function was met and the kernel did not let its callees be patched.
  uint32_t refused() const { return recording_->growth_refused.load_relaxed(); }
  Recording& recording() { return *recording_; }  ///< for benchmarks

 private:
  Session(const Image& image, NewTrace trace, TraceIdentity identity, std::string directory);
  Status begin(const std::vector<uint32_t>& first, bool everything);

  const Image& image_;
  const TraceIdentity identity_;
  const std::string directory_;
  TraceMemory memory_;
  const std::string path_;
  std::vector<uint8_t> values_;  ///< by function - 1: those that are recorded
  std::unique_ptr<uint8_t[]> patched_;
  std::unique_ptr<Shared<uint8_t>[]> met_;
  std::unique_ptr<Recording> recording_;
  const uint64_t lost_before_;
  bool closed_ = false;
};

}  // namespace kintsugi::tracing
