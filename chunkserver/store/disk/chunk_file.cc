#include "chunkserver/store/disk/chunk_file.h"

#include <cstring>

#include "chunkserver/store/disk/aligned_memory.h"

namespace kintsugi::chunkserver {
namespace {

Status not_wanted() {
  return {Code::kCancelled, "nobody waits for it any more"};
}

}  // namespace

ChunkFileWriter::ChunkFileWriter(const runtime::Runtime& runtime, DataDisk& disk, ChunkId id,
                                 uint64_t max_bytes)
    : disk_(disk),
      clock_(runtime.clock),
      id_(id),
      max_bytes_(max_bytes),
      finished_one_(runtime),
      writes_(runtime) {}

ChunkFileWriter::~ChunkFileWriter() {
  KINTSUGI_ASSERT(in_flight_ == 0);
}

asio::awaitable<Status> ChunkFileWriter::open() {
  temporary_path_ = disk_.new_temporary_path(id_);
  made_ = true;  // set before the attempt: an open that fails may have made the file
  auto file = co_await disk_.disk().open(temporary_path_, runtime::OpenMode::kCreate);
  if (!file) co_return disk_.note(file.error());
  file_ = std::move(*file);
  co_return Status{};
}

asio::awaitable<Status> ChunkFileWriter::reserve(uint64_t end) {
  if (!error_.ok()) co_return error_;
  if (!file_) KINTSUGI_CO_TRY(error_ = co_await open());
  if (end <= allocated_) co_return Status{};
  // In steps, so that a chunk costs few allocations, but never beyond what it can need.
  uint64_t target =
      std::max(end, std::min(round_up(end, kAllocationStepBytes), chunk_file_bytes(max_bytes_)));
  KINTSUGI_CO_TRY(error_ = disk_.note(co_await file_->allocate(target)));
  allocated_ = target;
  co_return Status{};
}

asio::awaitable<Status> ChunkFileWriter::known(asio::awaitable<Status> call) {
  ++calls_;
  Status status = co_await std::move(call);
  --calls_;
  finished_one_.notify_all();
  co_return status;
}

asio::awaitable<Status> ChunkFileWriter::write(runtime::Buffer buffer, size_t bytes) {
  return known(begin_write(std::move(buffer), bytes));
}

asio::awaitable<Status> ChunkFileWriter::write_memory(std::span<const std::byte> padded, size_t bytes) {
  return known(write_now(padded, bytes));
}

asio::awaitable<Status> ChunkFileWriter::commit(ChunkHeader header, std::span<const uint32_t> block_crcs,
                                                bool replaces, const Abandoned& abandoned) {
  return known(finish(std::move(header), block_crcs, replaces, abandoned));
}

asio::awaitable<Status> ChunkFileWriter::begin_write(runtime::Buffer buffer, size_t bytes) {
  while (in_flight_ >= kMaxWritesInFlight) {
    KINTSUGI_CO_TRY(disk_.check_answers());
    (void)co_await finished_one_.wait_until(clock_.now() + kLookAgain);
  }
  size_t padded = aligned(bytes);
  KINTSUGI_CO_TRY(co_await reserve(kChunkDataOffset + written_ + padded));
  std::memset(buffer.data() + bytes, 0, padded - bytes);
  uint64_t offset = kChunkDataOffset + written_;
  written_ += bytes;
  ++in_flight_;
  writes_.spawn(write_one(offset, std::move(buffer), padded));
  co_return Status{};
}

asio::awaitable<void> ChunkFileWriter::write_one(uint64_t offset, runtime::Buffer buffer, size_t padded) {
  Status status = disk_.note(co_await file_->write(offset, buffer.first(padded)));
  if (!status.ok() && error_.ok()) error_ = std::move(status);
  buffer = runtime::Buffer();
  --in_flight_;
  finished_one_.notify_all();
}

asio::awaitable<Status> ChunkFileWriter::write_now(std::span<const std::byte> padded, size_t bytes) {
  KINTSUGI_CO_TRY(co_await reserve(kChunkDataOffset + written_ + padded.size()));
  error_ = disk_.note(co_await file_->write(kChunkDataOffset + written_, padded));
  written_ += bytes;
  co_return error_;
}

asio::awaitable<void> ChunkFileWriter::drain() {
  while (in_flight_ > 0)
    co_await finished_one_.wait();
  co_await writes_.join();
}

asio::awaitable<Status> ChunkFileWriter::finish(ChunkHeader header, std::span<const uint32_t> block_crcs,
                                                bool replaces, const Abandoned& abandoned) {
  co_await drain();
  const ChunkInfo info = header.info;
  const uint64_t length = info.length;
  KINTSUGI_ASSERT(length == written_ && block_crcs.size() == blocks_of(length));
  KINTSUGI_CO_TRY(co_await reserve(chunk_file_bytes(length)));
  AlignedMemory memory(kChunkHeaderBytes + chunk_table_bytes(length));
  encode_chunk_header(header, memory.first(kChunkHeaderBytes));
  std::span<std::byte> table = memory.span().subspan(kChunkHeaderBytes);
  if (!table.empty()) {
    std::memcpy(table.data(), block_crcs.data(), block_crcs.size_bytes());
    KINTSUGI_CO_TRY(disk_.note(co_await file_->write(chunk_table_offset(length), table)));
  }
  KINTSUGI_CO_TRY(disk_.note(co_await file_->write(0, memory.first(kChunkHeaderBytes))));
  if (allocated_ > chunk_file_bytes(length)) {
    KINTSUGI_CO_TRY(disk_.note(co_await file_->truncate(chunk_file_bytes(length))));
  }
  // Data, table and header are on the disk before the name is: whoever finds the chunk under its name finds all of it.
  KINTSUGI_CO_TRY(disk_.note(co_await file_->sync()));
  KINTSUGI_CO_TRY(co_await disk_.ensure_chunk_directory(id_));
  if (abandoned.value) co_return not_wanted();
  std::string path = disk_.chunk_path(info);
  std::string directory = disk_.chunk_directory(id_);
  Status renamed = disk_.note(co_await disk_.disk().rename(temporary_path_, path));
  if (renamed.code() == Code::kNotFound) disk_.forget_chunk_directory(id_);
  KINTSUGI_CO_TRY(std::move(renamed));
  disk_.note_left_tmp();
  // The commit point. Before it a power loss may bring back the directory as it was.
  Status synced = disk_.note(co_await disk_.disk().sync_directory(directory));
  if (synced.ok() && abandoned.value) synced = not_wanted();
  if (!synced.ok()) {
    // Nobody was told of the chunk, so that discard() must remove it under its name; but where it has taken the place
    // of an equal one, which somebody was told of, it stays.
    temporary_path_ = path;
    made_ = !replaces;
    co_return synced;
  }
  made_ = false;
  file_.reset();
  co_return Status{};
}

asio::awaitable<void> ChunkFileWriter::discard() {
  while (calls_ > 0)
    co_await finished_one_.wait();
  co_await drain();
  file_.reset();
  if (!made_) co_return;
  made_ = false;
  // The name is new at every attempt and tmp/ is emptied at start, so that a failure here leaves only bytes.
  (void)disk_.note(co_await disk_.disk().remove(temporary_path_));
  disk_.note_left_tmp();
}

namespace {

struct Probed {
  std::unique_ptr<runtime::File> file;
  ChunkHeader header;
};

asio::awaitable<Result<Probed>> open_and_check(DataDisk& disk, ChunkId id, std::string path) {
  auto file = co_await disk.disk().open(path, runtime::OpenMode::kRead);
  if (!file) co_return disk.note(file.error());
  AlignedMemory memory(kChunkHeaderBytes);
  auto read = co_await (*file)->read(0, memory.span());
  if (!read) co_return disk.note(read.error());
  auto size = co_await (*file)->size();
  if (!size) co_return disk.note(size.error());
  KINTSUGI_CO_ASSIGN(ChunkHeader header, decode_chunk_header(memory.first(*read)));
  if (header.info.id != id) co_return Status{Code::kCorrupt, "chunk header: names another chunk"};
  if (*size != chunk_file_bytes(header.info.length)) {
    co_return Status{Code::kCorrupt, fmt::format("chunk file has {} bytes instead of {}", *size,
                                                 chunk_file_bytes(header.info.length))};
  }
  co_return Probed{std::move(*file), std::move(header)};
}

}  // namespace

asio::awaitable<Result<ChunkInfo>> take_over_chunk_file(DataDisk& disk, ChunkId id) {
  const std::string old_path = disk.chunk_directory(id) + "/" + chunk_file_name(id);
  auto probed = co_await open_and_check(disk, id, old_path);
  if (!probed) co_return probed.error();
  const ChunkInfo info = probed->header.info;
  // No sync: whichever name a loss of power leaves is one that the next start reads.
  const bool renamed =
      disk.takes_writes() && disk.note(co_await disk.disk().rename(old_path, disk.chunk_path(info))).ok();
  if (!renamed) disk.keep_old_name(id);
  co_return info;
}

asio::awaitable<Status> remove_chunk_file(DataDisk& disk, ChunkInfo info) {
  std::string path = disk.chunk_path(info);
  std::string directory = disk.chunk_directory(info.id);
  KINTSUGI_CO_TRY(disk.note(co_await disk.disk().remove(path)));
  disk.forget_old_name(info.id);
  co_return disk.note(co_await disk.disk().sync_directory(directory));
}

asio::awaitable<Result<std::shared_ptr<OpenChunk>>> open_chunk_file(DataDisk& disk, ChunkInfo info) {
  auto probed = co_await open_and_check(disk, info.id, disk.chunk_path(info));
  if (!probed) co_return probed.error();
  if (probed->header.info != info)
    co_return Status{Code::kCorrupt, "chunk header: not what the file's name says"};
  AlignedMemory table(chunk_table_bytes(info.length));
  size_t table_bytes = 0;
  if (table.size() > 0) {
    auto read = co_await probed->file->read(chunk_table_offset(info.length), table.span());
    if (!read) co_return disk.note(read.error());
    table_bytes = *read;
  }
  KINTSUGI_CO_ASSIGN(std::vector<uint32_t> crcs, decode_chunk_table(info, table.first(table_bytes)));
  auto chunk = std::make_shared<OpenChunk>();
  chunk->info = info;
  chunk->disk = &disk;
  chunk->file = std::move(probed->file);
  chunk->data_offset = kChunkDataOffset;
  chunk->block_crcs = std::move(crcs);
  co_return chunk;
}

}  // namespace kintsugi::chunkserver
