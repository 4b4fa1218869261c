#include "client/lib/dirty/dirty_buffers.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "common/base/assert.h"
#include "common/base/crc32c.h"
#include "common/base/math.h"

namespace kintsugi::client {
namespace {

constexpr uint32_t kMagic = 0x6b44'7274;
constexpr size_t kPage = 4096;
constexpr uint32_t kKillPrivileges = 1;

}  // namespace

struct DirtyBuffers::Header {
  uint32_t magic = kMagic;
  uint32_t crc = 0;       ///< CRC32C of the fields below
  uint64_t sequence = 0;  ///< the copy with the higher number is valid
  uint64_t inode = 0;
  uint64_t offset = 0;
  uint64_t generation = 0;
  int64_t modified_ns = 0;
  uint32_t length = 0;  ///< 0: the buffer is free
  uint32_t flags = 0;
  uint64_t reserved = 0;

  uint32_t body_crc() const {
    const auto* from = reinterpret_cast<const std::byte*>(&sequence);
    return crc32c(std::span(from, sizeof(Header) - offsetof(Header, sequence)));
  }
  bool valid() const { return magic == kMagic && crc == body_crc() && length <= kBufferBytes; }
};

// ---- a piece

DirtyPiece::DirtyPiece(DirtyPiece&& other) noexcept {
  *this = std::move(other);
}

DirtyPiece& DirtyPiece::operator=(DirtyPiece&& other) noexcept {
  if (this == &other) return *this;
  if (buffers_) buffers_->give_back(index_);
  buffers_ = std::exchange(other.buffers_, nullptr);
  index_ = other.index_;
  length_ = other.length_;
  inode_ = other.inode_;
  offset_ = other.offset_;
  generation_ = other.generation_;
  modified_ns_ = other.modified_ns_;
  kill_privileges_ = other.kill_privileges_;
  return *this;
}

DirtyPiece::~DirtyPiece() {
  if (buffers_) buffers_->give_back(index_);
}

uint32_t DirtyPiece::room() const {
  return static_cast<uint32_t>(DirtyBuffers::kBufferBytes - length_);
}

std::span<std::byte> DirtyPiece::bytes() const {
  return buffers_->buffer(index_).first(length_);
}

void DirtyPiece::put(uint64_t at, std::span<const std::byte> bytes, int64_t modified_ns,
                     bool kill_privileges) {
  KINTSUGI_ASSERT(at >= offset_ && at <= end() && at - offset_ + bytes.size() <= DirtyBuffers::kBufferBytes);
  std::memcpy(buffers_->buffer(index_).data() + (at - offset_), bytes.data(), bytes.size());
  length_ = std::max(length_, static_cast<uint32_t>(at - offset_ + bytes.size()));
  modified_ns_ = modified_ns;
  kill_privileges_ = kill_privileges_ || kill_privileges;
  write_header();
}

void DirtyPiece::cut(uint64_t end) {
  KINTSUGI_ASSERT(end > offset_);
  if (end >= this->end()) return;
  length_ = static_cast<uint32_t>(end - offset_);
  write_header();
}

void DirtyPiece::set_modified(int64_t modified_ns) {
  modified_ns_ = modified_ns;
  write_header();
}

void DirtyPiece::keep_privileges() {
  if (!std::exchange(kill_privileges_, false)) return;
  write_header();
}

void DirtyPiece::write_header() {
  // The bytes come before the header that counts them, for whoever reads this memory after a kill.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  DirtyBuffers::Header* two = buffers_->headers(index_);
  const uint64_t newest = std::max(two[0].sequence, two[1].sequence);
  DirtyBuffers::Header& older = two[0].sequence == newest ? two[1] : two[0];
  DirtyBuffers::Header header;
  header.sequence = newest + 1;
  header.inode = inode_;
  header.offset = offset_;
  header.generation = generation_;
  header.modified_ns = modified_ns_;
  header.length = length_;
  header.flags = kill_privileges_ ? kKillPrivileges : 0;
  header.crc = header.body_crc();
  older = header;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// ---- all of them

size_t DirtyBuffers::region_bytes(size_t bytes) {
  const size_t count = std::max<size_t>(1, bytes / kBufferBytes);
  return round_up(count * 2 * sizeof(Header), kPage) + count * kBufferBytes;
}

DirtyBuffers::DirtyBuffers(DirtyMemory& memory) : region_(memory.region()) {
  static_assert(sizeof(Header) == 64);
  size_t count = region_.size() / (kBufferBytes + 2 * sizeof(Header));
  while (count > 0 && round_up(count * 2 * sizeof(Header), kPage) + count * kBufferBytes > region_.size())
    --count;
  KINTSUGI_ASSERT(count > 0);
  headers_ = 2 * count;
  data_begin_ = round_up(headers_ * sizeof(Header), kPage);
  for (uint32_t index = static_cast<uint32_t>(count); index-- > 0;)
    free_.push_back(index);
}

DirtyBuffers::~DirtyBuffers() {
  KINTSUGI_ASSERT(handed_over_ || free() == total());
}

DirtyBuffers::Header* DirtyBuffers::headers(uint32_t index) const {
  return reinterpret_cast<Header*>(region_.data()) + 2 * index;
}

std::span<std::byte> DirtyBuffers::buffer(uint32_t index) const {
  return region_.subspan(data_begin_ + index * kBufferBytes, kBufferBytes);
}

DirtyPiece DirtyBuffers::take(uint64_t inode, uint64_t offset) {
  DirtyPiece piece;
  if (free_.empty()) return piece;
  piece.buffers_ = this;
  piece.index_ = free_.back();
  free_.pop_back();
  piece.inode_ = inode;
  piece.offset_ = offset;
  piece.generation_ = ++generation_;
  return piece;
}

void DirtyBuffers::give_back(uint32_t index) {
  if (handed_over_) return;
  DirtyPiece freed;
  freed.buffers_ = this;
  freed.index_ = index;
  freed.write_header();  // a length of 0 marks the buffer as free
  freed.buffers_ = nullptr;
  free_.push_back(index);
}

std::vector<DirtyPiece> DirtyBuffers::recover() {
  KINTSUGI_ASSERT(free() == total());
  std::vector<DirtyPiece> pieces;
  std::vector<uint32_t> still_free;
  for (const uint32_t index : free_) {
    const Header* two = headers(index);
    const Header* newest = nullptr;
    for (const Header* one : {two, two + 1}) {
      if (one->valid() && (!newest || one->sequence > newest->sequence)) newest = one;
    }
    if (!newest || newest->length == 0) {
      still_free.push_back(index);
      continue;
    }
    DirtyPiece& piece = pieces.emplace_back();
    piece.buffers_ = this;
    piece.index_ = index;
    piece.length_ = newest->length;
    piece.inode_ = newest->inode;
    piece.offset_ = newest->offset;
    piece.generation_ = newest->generation;
    piece.modified_ns_ = newest->modified_ns;
    piece.kill_privileges_ = (newest->flags & kKillPrivileges) != 0;
    generation_ = std::max(generation_, newest->generation);
  }
  free_ = std::move(still_free);
  std::ranges::sort(pieces, {}, &DirtyPiece::generation);
  return pieces;
}

}  // namespace kintsugi::client
