/// Counts what chunks take up while they are being written.
#pragma once

#include <utility>

#include "chunkserver/store/disk/data_disk.h"

namespace kintsugi::chunkserver {

/// Counts the writers of a store, and the memory of the small chunks among them.
class OpenWriters {
 public:
  static constexpr size_t kMaxWriters = 1024;
  static constexpr uint64_t kMaxSmallBytes = 64ull << 20;

  /// One writer's place among them, and the space that its disk promises it. Move-only. The writers and the disk
  /// outlive it.
  class Room {
   public:
    /// REQUIRES: the writers are not full. No more than `max_bytes` will be written.
    Room(OpenWriters& writers, DataDisk& disk, uint64_t max_bytes)
        : writers_(&writers), disk_(&disk), max_bytes_(max_bytes) {
      disk_->promise(max_bytes_);
      ++writers_->count_;
    }
    Room(Room&& other) noexcept
        : writers_(std::exchange(other.writers_, nullptr)),
          disk_(other.disk_),
          max_bytes_(other.max_bytes_),
          small_bytes_(other.small_bytes_) {}
    Room& operator=(Room&&) = delete;
    ~Room() { leave(0); }

    DataDisk& disk() const { return *disk_; }
    uint64_t max_bytes() const { return max_bytes_; }
    bool left() const { return writers_ == nullptr; }

    /// Tells whether `bytes` more of small chunks may be kept in memory.
    bool fits_in_memory(uint64_t bytes) const { return writers_->small_bytes_ + bytes <= kMaxSmallBytes; }
    /// The chunk now takes this much memory.
    void set_memory(uint64_t bytes) {
      writers_->small_bytes_ += bytes - small_bytes_;
      small_bytes_ = bytes;
    }
    /// Gives everything back; the disk has `written_bytes` less that are free. Idempotent.
    void leave(uint64_t written_bytes) {
      if (left()) return;
      set_memory(0);
      disk_->take_back_promise(max_bytes_, written_bytes);
      --std::exchange(writers_, nullptr)->count_;
    }

   private:
    OpenWriters* writers_;  ///< null once the room was released
    DataDisk* disk_;
    uint64_t max_bytes_;
    uint64_t small_bytes_ = 0;
  };

  size_t count() const { return count_; }
  bool full() const { return count_ >= kMaxWriters; }

 private:
  size_t count_ = 0;
  uint64_t small_bytes_ = 0;
};

}  // namespace kintsugi::chunkserver
