/// Memory that a disk reads into, and whoever keeps it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace kintsugi::chunkserver {

/// The read shares the owner: memory stays as long as the disk may still write to it, though nobody waits any more.
struct OwnedSpan {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;

  size_t size() const { return bytes.size(); }
  OwnedSpan subspan(size_t begin) const { return {bytes.subspan(begin), owner}; }
  OwnedSpan subspan(size_t begin, size_t size) const { return {bytes.subspan(begin, size), owner}; }
};

/// Memory that is written to a disk, and whoever owns it: it lives until the disk has answered.
struct OwnedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

}  // namespace kintsugi::chunkserver
