#include "chunkserver/store/chunk_loader.h"

#include "chunkserver/store/disk/chunk_file.h"
#include "common/log/log.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

asio::awaitable<Status> ChunkLoader::find() {
  KINTSUGI_CO_TRY(co_await root_.segments.load());
  co_return co_await load_files();
}

std::vector<ChunkIndex::Entry> ChunkLoader::take_found() {
  std::vector<ChunkIndex::Entry> found;
  for (const ChunkInfo& info : root_.segments.list())
    found.push_back({info, &root_, true});
  for (const ChunkInfo& info : std::exchange(files_, {}))
    found.push_back({info, &root_, false});
  return found;
}

void ChunkLoader::put_into(ChunkIndex& index) {
  for (const ChunkIndex::Entry& copy : take_found()) {
    const ChunkIndex::Entry* here = index.find(copy.info.id);
    if (here == nullptr) {
      index.insert(copy);
      continue;
    }
    log::warning("chunk {} is on disk {} and on disk {}; the first one is used", copy.info.id,
                 here->root->disk.root(), root_.disk.root());
    surplus_.push_back(copy);
  }
}

asio::awaitable<Status> ChunkLoader::load_files() {
  auto directories = co_await root_.disk.disk().list(root_.disk.chunks_directory());
  if (!directories) co_return root_.disk.note(directories.error());
  for (const std::string& name : *directories) {
    std::string directory = root_.disk.chunks_directory() + "/" + name;
    auto names = co_await root_.disk.disk().list(directory);
    if (!names) co_return root_.disk.note(names.error());
    co_await load_directory(directory, *names);
    if (root_.disk.failed()) co_return Status{Code::kIoError, "too many errors"};
  }
  co_return Status{};
}

asio::awaitable<void> ChunkLoader::load_directory(const std::string& directory,
                                                  const std::vector<std::string>& names) {
  std::vector<ChunkId> old;
  for (const std::string& name : names) {
    const auto file = parse_chunk_file_name(name);
    if (!file || root_.disk.chunk_directory(file->id) != directory) {
      log::warning("{}/{} is no chunk and is left alone", directory, name);
    } else if (file->info) {
      files_.push_back(*file->info);
    } else {
      old.push_back(file->id);
    }
  }
  // Each of these costs a small read: several at once.
  runtime::TaskGroup probes(runtime_);
  size_t next = 0;
  for (size_t i = 0; i < std::min(kProbesAtOnce, old.size()); ++i)
    probes.spawn(take_over(old, next));
  co_await probes.join();
}

asio::awaitable<void> ChunkLoader::take_over(const std::vector<ChunkId>& old, size_t& next) {
  while (next < old.size() && !root_.disk.failed()) {
    const ChunkId id = old[next++];
    const auto info = co_await take_over_chunk_file(root_.disk, id);
    if (info) files_.push_back(*info);
    // A disk that was given up meanwhile says nothing of its chunks, and nothing on it is changed.
    if (info || root_.disk.failed()) continue;
    const std::string name = chunk_file_name(id);
    const std::string path = root_.disk.chunk_directory(id) + "/" + name;
    log::error("chunk {} in {} cannot be used: {}", id, path, info.error().to_string());
    unusable_.push_back(id);
    if (info.error().code() == Code::kCorrupt) co_await root_.disk.quarantine(path, name);
  }
}

}  // namespace kintsugi::chunkserver
