#include "chunkserver/store/chunk_writer.h"

#include <cstring>

#include "chunkserver/store/chunk_changes.h"
#include "chunkserver/store/disk/disk_wait.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kAppend{"chunkserver.append", {"bytes"}};
constexpr sight::Site kCommit{"chunkserver.commit", {"bytes"}};

/// Writes what was kept in memory, and then the buffer. It owns what it uses, as it may continue after its caller has
/// gone.
asio::awaitable<Status> write_part(std::shared_ptr<ChunkFileWriter> file, AlignedMemory kept,
                                   size_t kept_bytes, runtime::Buffer buffer, size_t bytes) {
  if (kept_bytes > 0)
    KINTSUGI_CO_TRY(co_await file->write_memory(kept.first(aligned(kept_bytes)), kept_bytes));
  co_return co_await file->write(std::move(buffer), bytes);
}

asio::awaitable<Status> discard(std::shared_ptr<ChunkFileWriter> file) {
  co_await file->discard();
  co_return Status{};
}

}  // namespace

ChunkWriter::ChunkWriter(ChunkChanges& changes, const runtime::Runtime& runtime, StoreRoot& root,
                         OpenWriters::Room room, ChunkId id, std::string policy)
    : changes_(changes),
      runtime_(runtime),
      root_(root),
      room_(std::move(room)),
      id_(id),
      policy_(std::move(policy)),
      began_(runtime.clock.now()) {}

ChunkWriter::~ChunkWriter() {
  if (room_.left()) return;
  room_.leave(length_);
  // Writes may be under way into a file, and a destructor cannot wait for them: the store does.
  if (file_) changes_.discard_later(std::move(file_));
}

Status ChunkWriter::accept(std::span<const std::byte> data) const {
  if (room_.left()) return {Code::kCancelled, "the chunk is already committed or discarded"};
  if (!failed_.ok()) return failed_;
  if (data.empty()) return {Code::kInvalidArgument, "empty part of a chunk"};
  if (length_ % kBlockBytes != 0) return {Code::kInvalidArgument, "data after a block that is not whole"};
  if (data.size() > room_.max_bytes() - length_) {
    return {Code::kInvalidArgument,
            fmt::format("more than the {} bytes that were announced", room_.max_bytes())};
  }
  return {};
}

asio::awaitable<Status> ChunkWriter::append(Context context, runtime::Buffer buffer, size_t bytes,
                                            std::vector<uint32_t> block_crcs) {
  KINTSUGI_ASSERT(bytes <= buffer.size());
  Status matches = check_blocks(buffer.first(bytes), block_crcs, length_ / kBlockBytes);
  if (!matches.ok()) co_return matches.with_context(fmt::format("chunk {}", id_));
  co_return co_await append_checked(context, std::move(buffer), bytes, std::move(block_crcs));
}

asio::awaitable<Status> ChunkWriter::append(Context context, runtime::Buffer buffer, size_t bytes) {
  KINTSUGI_ASSERT(bytes <= buffer.size());
  std::vector<uint32_t> block_crcs = crc32c_blocks(buffer.first(bytes));
  co_return co_await append_checked(context, std::move(buffer), bytes, std::move(block_crcs));
}

asio::awaitable<Status> ChunkWriter::append_checked(Context context, runtime::Buffer buffer, size_t bytes,
                                                    std::vector<uint32_t> block_crcs) {
  sight::Module module{context, kAppend, {double(bytes)}};
  Status accepted = accept(buffer.first(bytes));
  if (!accepted.ok()) co_return module.finish(accepted.with_context(fmt::format("chunk {}", id_)));
  if (Status answers = room_.disk().check_answers(); !answers.ok())
    co_return module.finish(std::move(answers));
  Status stored = co_await store_part(module.context(), std::move(buffer), bytes);
  if (stored.ok()) {
    length_ += bytes;
    crcs_.insert(crcs_.end(), block_crcs.begin(), block_crcs.end());
  } else {
    failed_ = stored;
  }
  co_return module.finish(stored.with_context(fmt::format("chunk {}", id_)));
}

bool ChunkWriter::fits_in_memory(size_t bytes) const {
  if (file_ || length_ + bytes >= kSmallChunkBytes) return false;
  return room_.fits_in_memory(bytes);
}

void ChunkWriter::keep(std::span<const std::byte> data) {
  if (small_.size() < length_ + data.size()) {
    // The memory doubles, so that many small parts cost one copy each on average.
    AlignedMemory grown(
        std::max<uint64_t>(length_ + data.size(), std::min(2 * small_.size(), kSmallChunkBytes)));
    if (length_ > 0) std::memcpy(grown.data(), small_.data(), length_);
    small_ = std::move(grown);
    room_.set_memory(small_.size());
  }
  std::memcpy(small_.data() + length_, data.data(), data.size());
}

asio::awaitable<Status> ChunkWriter::store_part(Context context, runtime::Buffer buffer, size_t bytes) {
  if (fits_in_memory(bytes)) {
    keep(buffer.first(bytes));
    co_return Status{};
  }
  const size_t kept_bytes = file_ ? 0 : length_;
  DiskWait wait(context, room_.disk(), {.written = kept_bytes + bytes});
  if (!file_) {
    // From here on the chunk is a file: what was kept goes there first.
    file_ = std::make_shared<ChunkFileWriter>(runtime_, room_.disk(), id_, room_.max_bytes());
    room_.set_memory(0);
  }
  auto writing =
      write_part(file_, std::exchange(small_, AlignedMemory()), kept_bytes, std::move(buffer), bytes);
  co_return wait.finish(co_await changes_.disk_calls().wait_for(room_.disk(), std::move(writing)));
}

asio::awaitable<Result<ChunkInfo>> ChunkWriter::commit(Context context, uint64_t length, uint32_t crc) {
  sight::Module module{context, kCommit, {double(length)}};
  if (room_.left())
    co_return module.finish({Code::kCancelled, "the chunk is already committed or discarded"});
  const ChunkInfo info{id_, length, crc};
  Status status = failed_;
  if (!status.ok()) {
    // The file does not hold the bytes that the writer took.
  } else if (length != length_) {
    status = {Code::kInvalidArgument, fmt::format("sealed at {} bytes, but {} came", length, length_)};
  } else if (crc32c_of_blocks(crcs_, length_) != crc) {
    status = {Code::kCorrupt, "the chunk's checksum does not match its blocks"};
  } else {
    OwnedBytes data;
    if (!file_) {
      const auto kept = std::make_shared<const AlignedMemory>(std::exchange(small_, AlignedMemory()));
      data = {kept->first(length), kept};
    }
    FinishedChunk finished{
        {info, policy_}, std::move(crcs_), root_, std::exchange(file_, nullptr), std::move(data), began_};
    status = co_await changes_.commit(module.context(), std::move(finished));
    // No abort() is needed: the store has discarded a file that it did not take.
    room_.leave(length_);
  }
  co_await abort();
  status = module.finish(status.with_context(fmt::format("chunk {}", id_)));
  if (!status.ok()) co_return status;
  co_return info;
}

asio::awaitable<void> ChunkWriter::abort() {
  if (room_.left()) co_return;
  room_.leave(length_);
  small_ = AlignedMemory();
  if (!file_) co_return;
  // What was begun on a disk that hangs is cleared away when it answers again: the store waits for that, and nobody
  // else.
  if (!room_.disk().answers()) co_return changes_.discard_later(std::move(file_));
  (void)co_await changes_.disk_calls().wait_for(room_.disk(), discard(std::exchange(file_, nullptr)));
}

}  // namespace kintsugi::chunkserver
