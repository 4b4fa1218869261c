/// The shared memory that one recording writes to: a file of a directory that only this user can look into.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "tracing/records/format.h"

namespace kintsugi::tracing {

struct TraceIdentity {
  std::string program;   ///< path of the binary
  std::string build_id;  ///< raw bytes
  std::string start;
  Mode mode = Mode::kLinear;
  uint32_t functions = 0;
};

/// Where traces of this user's processes go unless somebody says otherwise: "/dev/shm/kintsugi-UID".
std::string default_trace_directory();

/// Makes the directory when it is not there. kPermissionDenied: it is another user's, or others may look into it.
Status make_trace_directory(const std::string& directory);

/// Removes the oldest traces until `kept` are left that nobody writes to. Those of processes that record stay.
void remove_old_traces(const std::string& directory, size_t kept);

class TraceMemory {
 public:
  /// All its memory is taken at once, so that no write to it can fail later. kNoSpace: there is not so much.
  static Result<TraceMemory> make(const std::string& path, uint64_t bytes, const TraceIdentity& identity);
  TraceMemory() = default;
  TraceMemory(TraceMemory&& other) noexcept;
  TraceMemory& operator=(TraceMemory&& other) noexcept;
  ~TraceMemory();  ///< the file stays

  bool is_open() const { return header_ != nullptr; }
  FileHeader& header() const { return *header_; }
  ThreadEntry* threads() const;
  Block* blocks() const;
  /// Reads the clock again, by which the length of a tick is known.
  void read_clock() const;
  /// Says why the recording ended, and gives back the memory that it did not use. REQUIRES: nobody records any more.
  void finish(End end);

 private:
  FileHeader* header_ = nullptr;
  uint64_t bytes_ = 0;
  int file_ = -1;  ///< holds the lock that says that somebody writes
};

}  // namespace kintsugi::tracing
