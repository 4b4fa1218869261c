/// Records on disk, in the order in which they came, of which the oldest are given up when there are too many.
///
/// A directory of segments, "0000000000000012.log" and so on. A record begins at a multiple of 4 KiB with a header
/// (magic, CRC32C, length), so a torn one is recognised and whatever was whole before it is read again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/runtime.h"

namespace kintsugi::monitoring {

struct RecordLogOptions {
  std::string directory;             ///< absolute path; created if necessary
  uint64_t most_bytes = 16 << 20;    ///< limit for all segments together
  uint64_t segment_bytes = 4 << 20;  ///< a segment of at least this size gets no more records
  bool durable = true;               ///< append() returns only once the record is synced to the disk
};

/// Not for several tasks at a time: the next call begins when the one before it has ended.
class RecordLog {
 public:
  static constexpr size_t kMostRecord = 64 << 20;
  static constexpr size_t kMostSegments = 4096;

  RecordLog(const runtime::Runtime& runtime, RecordLogOptions options);
  ~RecordLog();

  /// Hands every whole record to `read`, the oldest first; without it only looks what is there. kConflict: another
  /// process uses the directory. REQUIRES: nothing else was called.
  asio::awaitable<Status> open(std::function<void(std::string_view record)> read = {});
  /// kInvalidArgument: it is longer than kMostRecord. After an error of the disk the next append tries a new segment.
  asio::awaitable<Status> append(std::string_view record);

  uint64_t bytes() const;
  size_t segments() const { return segments_.size(); }

  /// The whole records of a segment's bytes, up to the first that is torn or damaged.
  static std::vector<std::string_view> parse(std::string_view segment);

 private:
  struct Segment {
    uint64_t number = 0;
    uint64_t bytes = 0;
  };
  std::string path(uint64_t number) const;
  asio::awaitable<Status> read_segment(const Segment& segment,
                                       const std::function<void(std::string_view)>& read);
  asio::awaitable<Status> begin_segment();
  /// Removes the oldest until `more` bytes have room.
  asio::awaitable<void> make_room(uint64_t more);

  runtime::Runtime runtime_;
  const RecordLogOptions options_;
  std::vector<Segment> segments_;        ///< oldest first
  std::unique_ptr<runtime::File> file_;  ///< file of the last segment; null: the next append begins a segment
  std::unique_ptr<runtime::FileLock> lock_;
};

}  // namespace kintsugi::monitoring
