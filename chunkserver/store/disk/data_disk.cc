#include "chunkserver/store/disk/data_disk.h"

#include "chunkserver/store/disk/chunk_format.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {

std::string DataDisk::chunk_directory(ChunkId id) const {
  return fmt::format("{}/chunks/{:02x}", root_, id.stripe.value & 0xff);
}

std::string DataDisk::chunk_path(ChunkId id) const {
  return chunk_directory(id) + "/" + chunk_file_name(id);
}

std::string DataDisk::new_temporary_path(ChunkId id) {
  return fmt::format("{}/tmp/{}.{}", root_, chunk_file_name(id), next_name_++);
}

std::string DataDisk::new_quarantine_path(const std::string& name) {
  return fmt::format("{}/quarantine/{}.{}", root_, name, next_name_++);
}

asio::awaitable<Status> DataDisk::prepare() {
  KINTSUGI_CO_TRY(co_await make_rooms());
  KINTSUGI_CO_TRY(co_await empty_temporary_directory());
  KINTSUGI_CO_TRY(co_await continue_quarantine_names());
  co_return co_await refresh_space();
}

asio::awaitable<Status> DataDisk::make_rooms() {
  const std::vector<std::string> rooms{temporary_directory(), chunks_directory(), segments_directory(),
                                       quarantine_directory()};
  for (const std::string& directory : rooms) {
    KINTSUGI_CO_TRY(note(co_await disk_.make_directory(directory)));
  }
  KINTSUGI_CO_TRY(note(co_await disk_.sync_directory(root_)));
  // The root may be new as well, and all above it; until those are synced, a power loss takes everything away.
  // Directories that may not be read were there before.
  std::string above = root_;
  while (above.size() > 1) {
    above.resize(std::max<size_t>(above.rfind('/'), 1));
    (void)co_await disk_.sync_directory(above);
  }
  co_return Status{};
}

asio::awaitable<Status> DataDisk::empty_temporary_directory() {
  auto left = co_await disk_.list(temporary_directory());
  if (!left) co_return note(left.error());
  for (const std::string& name : *left) {
    std::string path = temporary_directory() + "/" + name;
    KINTSUGI_CO_TRY(note(co_await disk_.remove(path)));
  }
  co_return Status{};
}

// Names in quarantine stay unique over restarts, so that no damaged file takes the place of another.
asio::awaitable<Status> DataDisk::continue_quarantine_names() {
  auto kept = co_await disk_.list(quarantine_directory());
  if (!kept) co_return note(kept.error());
  for (const std::string& name : *kept) {
    auto dot = name.rfind('.');
    if (dot == std::string::npos) continue;
    uint64_t number = std::strtoull(name.c_str() + dot + 1, nullptr, 10);
    if (number < UINT64_MAX) next_name_ = std::max(next_name_, number + 1);
  }
  co_return Status{};
}

asio::awaitable<Status> DataDisk::ensure_chunk_directory(ChunkId id) {
  std::string directory = chunk_directory(id);
  if (made_.contains(directory)) co_return Status{};
  KINTSUGI_CO_TRY(note(co_await disk_.make_directory(directory)));
  KINTSUGI_CO_TRY(note(co_await disk_.sync_directory(chunks_directory())));
  made_.insert(std::move(directory));
  co_return Status{};
}

asio::awaitable<void> DataDisk::quarantine(std::string path, std::string name) {
  std::string to = new_quarantine_path(name);
  Status moved = note(co_await disk_.rename(path, to));
  if (!moved.ok()) {
    log::warning("{} cannot be moved to quarantine: {}", path, moved.to_string());
  } else {
    log::warning("{} was moved to {}", path, to);
  }
}

Status DataDisk::note(Status status) {
  if (status.code() == Code::kIoError && !failed_ && ++io_errors_ > kMaxIoErrors) fail(status);
  return status;
}

void DataDisk::fail(const Status& why) {
  if (failed_) return;
  failed_ = true;
  log::error("disk {} is dropped: {}", root_, why.to_string());
  if (on_failed) on_failed();
}

asio::awaitable<Status> DataDisk::refresh_space() {
  // Before the sync a power loss could bring back what was discarded, so that its space is not free for certain.
  KINTSUGI_CO_TRY(note(co_await disk_.sync_directory(temporary_directory())));
  auto space = co_await disk_.space(root_);
  if (!space) co_return note(space.error());
  space_ = *space;
  co_return Status{};
}

void DataDisk::take_back_promise(uint64_t bytes, uint64_t written) {
  promised_ -= std::min(promised_, bytes);
  space_.free_bytes -= std::min(space_.free_bytes, written);
}

}  // namespace kintsugi::chunkserver
