/// The content of one simulated file: as programs see it, and as it would be after a loss of power.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "tests/simulation/runtime/sim_random.h"

namespace kintsugi::simulation {

/// Bytes in pages, shared copy-on-write between images. A page that was never written takes no memory and
/// reads as zeros.
class FileImage {
 public:
  static constexpr size_t kPageBytes = 64 * 1024;
  using Page = std::array<std::byte, kPageBytes>;
  using PagePtr = std::shared_ptr<Page>;

  uint64_t size() const { return size_; }
  /// Returns how many bytes it read: fewer than asked at the end only.
  size_t read(uint64_t offset, std::span<std::byte> into) const;
  void write(uint64_t offset, std::span<const std::byte> from);  ///< grows the file as needed
  void resize(uint64_t bytes);                                   ///< new bytes read as zeros

  size_t pages() const { return pages_.size(); }
  const PagePtr& page(size_t index) const { return pages_[index]; }
  void set_page(size_t index, PagePtr page) { pages_[index] = std::move(page); }
  Page& writable_page(size_t index);

 private:
  uint64_t size_ = 0;
  std::vector<PagePtr> pages_;
};

/// A loss of power tears writes between any two of these.
inline constexpr size_t kSectorBytes = 512;

/// The fate of unsynced changes in a power cut.
enum class Unsynced {
  kRandom,   ///< all kept, all dropped, or each sector on its own
  kDropped,  ///< the worst case for data that was acknowledged too early
  kKept,     ///< the worst case for data that should have been cleaned up
};

class SimFileContent {
 public:
  const FileImage& current() const { return current_; }
  void write(uint64_t offset, std::span<const std::byte> from);
  void resize(uint64_t bytes);
  void flip_bit(uint64_t offset, unsigned bit);  ///< in both images

  /// The pages that a sync that begins now makes durable. REQUIRES: they go to exactly one of
  /// finish_sync and abandon_sync.
  struct SyncPoint {
    uint64_t size;
    std::vector<std::pair<size_t, FileImage::PagePtr>> pages;
  };
  SyncPoint begin_sync();
  void finish_sync(SyncPoint point);
  void abandon_sync(const SyncPoint& point);

  void lose_power(Unsynced unsynced, SimRandom& random);

 private:
  FileImage current_;
  FileImage durable_;
  std::set<size_t> dirty_;  ///< pages changed since the last sync began
};

}  // namespace kintsugi::simulation
