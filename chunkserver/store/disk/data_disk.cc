#include "chunkserver/store/disk/data_disk.h"

#include "chunkserver/store/disk/chunk_format.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {

std::string DataDisk::chunk_directory(ChunkId id) const {
  return fmt::format("{}/chunks/{:02x}", root_, id.stripe.value & 0xff);
}

std::string DataDisk::chunk_path(const ChunkInfo& info) const {
  const bool is_old = old_names_.contains(info.id);
  return chunk_directory(info.id) + "/" + (is_old ? chunk_file_name(info.id) : chunk_file_name(info));
}

std::string DataDisk::new_temporary_path(ChunkId id) {
  return fmt::format("{}/tmp/{}.{}", root_, chunk_file_name(id), next_name_++);
}

asio::awaitable<Status> DataDisk::prepare() {
  KINTSUGI_CO_TRY(co_await make_rooms());
  KINTSUGI_CO_TRY(co_await empty_temporary_directory());
  KINTSUGI_CO_TRY(note(co_await quarantine_.load()));
  co_return co_await refresh_space();
}

asio::awaitable<Status> DataDisk::make_rooms() {
  const std::vector<std::string> rooms{temporary_directory(), chunks_directory(), segments_directory(),
                                       quarantine_directory()};
  for (const std::string& directory : rooms) {
    KINTSUGI_CO_TRY(note(co_await disk_.make_directory(directory)));
  }
  Status synced = note(co_await disk_.sync_directory(root_));
  // What a file system that became read-only has can still be read.
  if (!synced.ok() && synced.code() != Code::kReadOnlyDevice) co_return synced;
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
    KINTSUGI_CO_TRY(check_answers());
    std::string path = temporary_directory() + "/" + name;
    Status removed = note(co_await disk_.remove(path));
    // The contents of a read-only disk can still be read.
    if (removed.code() == Code::kReadOnlyDevice) co_return Status{};
    KINTSUGI_CO_TRY(std::move(removed));
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
  const Result<std::string> moved = co_await quarantine_.take(path, std::move(name));
  if (!moved) {
    log::warning("{} cannot be moved to quarantine: {}", path, note(moved.error()).to_string());
  } else {
    log::warning("{} was moved to {}", path, *moved);
  }
}

Status DataDisk::note(Status status) {
  if (status.ok() || failed()) return status;
  if (status.code() == Code::kNoSpace) {
    if (!full())
      log::warning(
          "disk {} has no room, though it reports {} free bytes: it gets no new chunks until it reports "
          "more: {}",
          root_, space_.free_bytes, status.message());
    room_.refused(health_.clock().now());
  }
  if (status.code() == Code::kMediumError || status.code() == Code::kIoError) log_error(status);
  const bool could_write = takes_writes();
  if (health_.note(status)) {
    fail(status);
  } else if (could_write && health_.condition() == DiskCondition::kReadOnly) {
    log::error("disk {} is read-only: its chunks are still read, and it takes no new ones: {}", root_,
               status.message());
  }
  return status;
}

void DataDisk::log_error(const Status& error) {
  const std::optional<size_t> left_out = logged_errors_.allow(health_.clock().now());
  if (!left_out) return;
  const std::string others = *left_out == 0 ? "" : fmt::format(" ({} more since the last line)", *left_out);
  log::warning("disk {} gave an error: {}{}", root_, error.message(), others);
}

Status DataDisk::check_answers() const {
  if (failed()) return {Code::kIoError, fmt::format("disk {} has failed", root_)};
  if (!answers()) return {Code::kUnavailable, fmt::format("disk {} hangs: {}", root_, health_.reason())};
  return {};
}

void DataDisk::fail(const Status& why) {
  if (failed()) return;
  health_.fail(why);
  log::error("disk {} is dropped: {}", root_, why.to_string());
  if (on_failed) on_failed();
}

asio::awaitable<Status> DataDisk::refresh_space() {
  // Before the sync a power loss could bring back what left tmp/, so that its space is not free for certain.
  if (std::exchange(left_tmp_, false)) {
    Status synced = note(co_await disk_.sync_directory(temporary_directory()));
    if (!synced.ok()) left_tmp_ = true;
    if (!synced.ok() && synced.code() != Code::kReadOnlyDevice) co_return synced;
  }
  auto space = co_await disk_.space(root_);
  if (!space) co_return note(space.error());
  const bool had_room = !reports_no_room();
  space_ = *space;
  if (had_room && reports_no_room())
    log::warning("disk {} is full: it has no free bytes, or too few free inodes, and gets no new chunks",
                 root_);
  room_.measured(space_.free_bytes);
  co_return Status{};
}

asio::awaitable<void> DataDisk::keep_space_fresh(runtime::TaskGroup& tasks) {
  // DiskHealth judges the error, if there is one.
  while (!failed() && co_await tasks.sleep_for(kSpaceEvery))
    (void)co_await refresh_space();
}

void DataDisk::take_back_promise(uint64_t bytes, uint64_t written) {
  promised_ -= std::min(promised_, bytes);
  space_.free_bytes -= std::min(space_.free_bytes, written);
}

}  // namespace kintsugi::chunkserver
