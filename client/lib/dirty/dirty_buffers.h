/// Buffers for written bytes in a DirtyMemory, each with a header from which another process finds them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/lib/dirty/dirty_memory.h"

namespace kintsugi::client {

class DirtyBuffers;

/// A buffer that holds bytes of a file from `offset` on. Move-only; frees itself, unless the whole is handed over.
class DirtyPiece {
 public:
  DirtyPiece() = default;
  DirtyPiece(DirtyPiece&& other) noexcept;
  DirtyPiece& operator=(DirtyPiece&& other) noexcept;
  ~DirtyPiece();

  uint64_t inode() const { return inode_; }
  uint64_t offset() const { return offset_; }
  uint64_t end() const { return offset_ + length_; }
  uint32_t length() const { return length_; }
  uint32_t room() const;
  int64_t modified_ns() const { return modified_ns_; }
  bool kill_privileges() const { return kill_privileges_; }
  uint64_t generation() const { return generation_; }
  std::span<std::byte> bytes() const;
  explicit operator bool() const { return buffers_ != nullptr; }

  /// Puts bytes at [at, at + bytes.size()) of the file: over those that are there, or right after them as far as there
  /// is room (asserted). They count once this returns.
  void put(uint64_t at, std::span<const std::byte> bytes, int64_t modified_ns, bool kill_privileges);
  /// Drops what lies behind `end`. REQUIRES: offset() < end.
  void cut(uint64_t end);
  /// As if the bytes had been written then.
  void set_modified(int64_t modified_ns);
  /// The pieces take no privileges away any more, since the mode was set after they were written.
  void keep_privileges();

 private:
  friend class DirtyBuffers;
  void write_header();

  DirtyBuffers* buffers_ = nullptr;
  uint32_t index_ = 0;
  uint32_t length_ = 0;
  uint64_t inode_ = 0;
  uint64_t offset_ = 0;
  uint64_t generation_ = 0;
  int64_t modified_ns_ = 0;
  bool kill_privileges_ = false;
};

/// Single-threaded. A process may be killed between any two instructions: of each header there are two copies, written
/// in turn, so that one of them is whole.
class DirtyBuffers {
 public:
  static constexpr size_t kBufferBytes = 32 << 10;
  /// What a region has to have for `bytes` of buffers.
  static size_t region_bytes(size_t bytes);

  explicit DirtyBuffers(DirtyMemory& memory);
  ~DirtyBuffers();

  size_t total() const { return headers_ / 2; }
  size_t free() const { return free_.size(); }

  /// A buffer for bytes of the inode from `offset` on, which has none yet; an empty piece when there is no buffer.
  DirtyPiece take(uint64_t inode, uint64_t offset);
  /// The pieces that lie in the memory, older ones first: where they overlap, the later ones hold. REQUIRES: nothing
  /// was taken yet. What is no header of ours, or damaged, is skipped.
  std::vector<DirtyPiece> recover();
  /// Pieces no longer free themselves: another process takes them over.
  void hand_over() { handed_over_ = true; }

 private:
  friend class DirtyPiece;
  struct Header;
  Header* headers(uint32_t index) const;
  std::span<std::byte> buffer(uint32_t index) const;
  void give_back(uint32_t index);

  std::span<std::byte> region_;
  size_t headers_ = 0;       ///< number of headers, two for each buffer
  size_t data_begin_ = 0;    ///< offset of the data in the region
  uint64_t generation_ = 0;  ///< generation of the last piece that was stored
  bool handed_over_ = false;
  std::vector<uint32_t> free_;
};

}  // namespace kintsugi::client
