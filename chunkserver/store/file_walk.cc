#include "chunkserver/store/file_walk.h"

#include "chunkserver/store/disk/chunk_format.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

/// The file is not there; every other error leaves that open.
bool is_gone(const Status& status) {
  return status.code() == Code::kNotFound || status.code() == Code::kNotDirectory;
}

}  // namespace

asio::awaitable<void> FileWalk::run() {
  while (co_await tasks_.sleep_for(kBetweenRounds)) {
    lost_ = 0;
    co_await walk_chunk_files();
    for (const auto& root : roots_)
      co_await walk_segments(*root);
    if (lost_ > kNamedPerRound)
      log::error("{} more chunks are lost whose files are missing or cut off", lost_ - kNamedPerRound);
  }
}

asio::awaitable<void> FileWalk::walk_chunk_files() {
  ChunkId after;
  while (true) {
    const std::vector<ChunkIndex::Entry> entries = chunks_.index().entries(after, kEntriesAtOnce);
    if (entries.empty()) co_return;
    after = entries.back().info.id;
    size_t files = 0;
    for (const ChunkIndex::Entry& entry : entries) {
      if (entry.in_segment || !entry.root->disk.answers()) continue;
      co_await look_at(entry);
      ++files;
    }
    if (!co_await pause(files)) co_return;
  }
}

asio::awaitable<void> FileWalk::walk_segments(StoreRoot& root) {
  for (const auto& segment : root.segments.segments()) {
    if (!root.disk.answers()) co_return;
    co_await look_at(root, segment);
    if (!co_await pause(1)) co_return;
  }
}

// No claim is held: the chunk may be removed or replaced meanwhile. drop_lost() compares generations, and whatever
// removes a file or replaces it by one of another length has taken the entry out of the index before.
asio::awaitable<void> FileWalk::look_at(ChunkIndex::Entry entry) {
  DataDisk& disk = entry.root->disk;
  const auto found = co_await disk.disk().attributes(disk.chunk_path(entry.info));
  const uint64_t bytes = chunk_file_bytes(entry.info.length);
  if (!found) {
    const Status error = disk.note(found.error());
    if (is_gone(error)) lose(entry, {Code::kNotFound, "its file is gone"});
  } else if (found->bytes != bytes) {
    lose(entry, {Code::kCorrupt, fmt::format("its file has {} bytes instead of {}", found->bytes, bytes)});
  }
}

asio::awaitable<void> FileWalk::look_at(StoreRoot& root, std::shared_ptr<Segment> segment) {
  const uint64_t end = segment->end;  // a copy: the segment may grow while the disk answers
  const auto found = co_await root.disk.disk().attributes(segment->path);
  if (!found) {
    const Status error = root.disk.note(found.error());
    if (is_gone(error)) root.segments.give_up(segment, end);
  } else if (found->bytes < end) {
    root.segments.give_up(segment, found->bytes);
  }
}

asio::awaitable<bool> FileWalk::pause(size_t files) {
  return tasks_.sleep_for((1 + files) * Duration(std::chrono::seconds(1)) / kFilesPerSecond);
}

void FileWalk::lose(const ChunkIndex::Entry& entry, const Status& why) {
  if (!chunks_.drop_lost(entry.info.id, entry.generation, why.code())) return;
  if (++lost_ > kNamedPerRound) return;
  log::error("chunk {} on disk {} is lost: {}", entry.info.id, entry.root->disk.root(), why.message());
}

}  // namespace kintsugi::chunkserver
