/// Where appends went that may be asked for again, in memory that outlives the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>

namespace kintsugi::client {

/// The kernel sends a request again when the process that had it was killed. Bytes that were appended before must then
/// go where they went, and not behind themselves. So an append is noted here before its first byte is taken.
///
/// A note stays until 3,000 other appends were begun after this one ended: far longer than the kernel takes to hear of
/// its end.
class AppendLog {
 public:
  static constexpr size_t kBytes = 48 * 4096;
  static constexpr size_t kAtOnce = 1024;  ///< appends that may be in progress

  /// `region`: kBytes, all zero at first, aligned to 8 bytes, and outlives this. Empty: nobody continues with the
  /// appends.
  explicit AppendLog(std::span<std::byte> region = {});

  /// Where a process before this one began the append of that number; none: it is new.
  std::optional<uint64_t> begun(uint64_t inode, uint64_t request) const;

  /// The append goes there. It is under way until this is destroyed.
  class Note {
   public:
    Note(AppendLog& log, uint64_t inode, uint64_t request, uint64_t offset);
    ~Note();
    Note(const Note&) = delete;
    Note& operator=(const Note&) = delete;

   private:
    AppendLog& log_;
    std::optional<uint32_t> slot_;
  };

 private:
  struct Record {
    uint64_t inode, request, offset, number;
  };
  struct Slot;
  Slot* slots() const;

  std::span<std::byte> region_;
  std::deque<uint32_t> free_;  ///< free slots; the slot freed last comes last
  uint64_t last_number_ = 0;
  std::unordered_map<uint64_t, Record> before_;  ///< records that former processes left, by request
};

}  // namespace kintsugi::client
