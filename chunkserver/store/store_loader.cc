/// What a ChunkStore does at start: whose disks these are, and which chunks are on them.
#include "chunkserver/store/chunk_store.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

constexpr size_t kProbesAtOnce = 16;

}  // namespace

asio::awaitable<Status> ChunkStore::start() {
  if (roots_.empty() || roots_.size() > kMaxDisks) {
    co_return Status{Code::kInvalidArgument,
                     fmt::format("{} disks; between 1 and {} are needed", roots_.size(), kMaxDisks)};
  }
  for (auto& root : roots_) {
    Status prepared = co_await root->disk.prepare();
    if (!prepared.ok()) root->disk.fail(prepared);
  }
  KINTSUGI_CO_TRY(co_await agree_on_identity());
  for (auto& root : roots_) {
    if (!root->disk.failed()) co_await load_root(*root);
  }
  if (emptiest_root() == nullptr) co_return Status{Code::kUnavailable, "none of the disks can be used"};
  for (auto& root : roots_) {
    if (!root->disk.failed()) root->segments.start(tasks_);
  }
  co_return Status{};
}

asio::awaitable<Status> ChunkStore::agree_on_identity() {
  std::string named_by;
  for (auto& root : roots_) {
    if (root->disk.failed()) continue;
    auto loaded = co_await load_identity(root->disk);
    if (!loaded && loaded.error().code() == Code::kCorrupt) co_return loaded.error();
    if (!loaded) {
      root->disk.fail(loaded.error());
      continue;
    }
    root->identity = *loaded;
    if (!loaded->server) continue;
    bool same_cluster =
        loaded->cluster == identity_.cluster || loaded->cluster.empty() || identity_.cluster.empty();
    if (identity_.server && (identity_.server != loaded->server || !same_cluster)) {
      co_return Status{
          Code::kConflict,
          fmt::format(
              "disk {} belongs to server {:016x} of cluster '{}', disk {} to server {:016x} of cluster '{}'",
              root->disk.root(), loaded->server.value, loaded->cluster, named_by, identity_.server.value,
              identity_.cluster)};
    }
    identity_.server = loaded->server;
    if (!loaded->cluster.empty()) identity_.cluster = loaded->cluster;
    named_by = root->disk.root();
  }
  while (!identity_.server)
    identity_.server = ServerId(runtime_.random.next());
  for (auto& root : roots_) {
    if (root->disk.failed() || root->identity == identity_) continue;
    Status saved = co_await save_identity(root->disk, identity_);
    if (!saved.ok()) root->disk.fail(saved);
    root->identity = identity_;
  }
  co_return Status{};
}

asio::awaitable<Status> ChunkStore::join_cluster(std::string cluster) {
  if (identity_.cluster == cluster) co_return Status{};
  if (!identity_.cluster.empty()) {
    co_return Status{Code::kConflict,
                     fmt::format("the disks of this server belong to cluster '{}', the metaserver to '{}'",
                                 identity_.cluster, cluster)};
  }
  identity_.cluster = std::move(cluster);
  for (auto& root : roots_) {
    if (root->disk.failed()) continue;
    KINTSUGI_CO_TRY(co_await save_identity(root->disk, identity_));
    root->identity = identity_;
  }
  co_return Status{};
}

asio::awaitable<void> ChunkStore::load_root(Root& root) {
  Status loaded = co_await root.segments.load();
  if (loaded.ok()) {
    for (const ChunkInfo& info : root.segments.list())
      adopt({info, &root, true});
    loaded = co_await load_files(root);
  }
  if (!loaded.ok()) root.disk.fail(loaded);
}

asio::awaitable<Status> ChunkStore::load_files(Root& root) {
  auto directories = co_await root.disk.disk().list(root.disk.chunks_directory());
  if (!directories) co_return root.disk.note(directories.error());
  for (const std::string& name : *directories) {
    std::string directory = root.disk.chunks_directory() + "/" + name;
    auto names = co_await root.disk.disk().list(directory);
    if (!names) co_return root.disk.note(names.error());
    // Probing is one small read for each chunk: several at once.
    runtime::TaskGroup probes(runtime_);
    size_t next = 0;
    for (size_t i = 0; i < std::min(kProbesAtOnce, names->size()); ++i) {
      probes.spawn(load_names(root, *names, directory, next));
    }
    co_await probes.join();
    if (root.disk.failed()) co_return Status{Code::kIoError, "too many errors"};
  }
  co_return Status{};
}

asio::awaitable<void> ChunkStore::load_names(Root& root, const std::vector<std::string>& names,
                                             std::string directory, size_t& next) {
  while (next < names.size() && !root.disk.failed()) {
    std::string name = names[next++];
    co_await load_file(root, directory, name);
  }
}

asio::awaitable<void> ChunkStore::load_file(Root& root, std::string directory, std::string name) {
  std::string path = directory + "/" + name;
  auto id = parse_chunk_file_name(name);
  if (!id || root.disk.chunk_path(*id) != path) {
    log::warning("{} is no chunk and is left alone", path);
    co_return;
  }
  auto info = co_await probe_chunk_file(root.disk, *id);
  if (info) {
    adopt({*info, &root, false});
    co_return;
  }
  log::error("chunk {} in {} cannot be used: {}", *id, path, info.error().to_string());
  ++counters_.corrupt_chunks;
  lost_.push_back({*id, 0, 0});
  if (info.error().code() == Code::kCorrupt) co_await root.disk.quarantine(path, name);
}

void ChunkStore::adopt(const Entry& entry) {
  auto found = index_.find(entry.info.id);
  if (found == index_.end()) return insert(entry);
  // Both are whole. One may have come back after a power loss: it is in the way of nobody, and cleaned up by
  // hand.
  log::warning("chunk {} is on disk {} and on disk {}; the first one is used", entry.info.id,
               found->second.root->disk.root(), entry.root->disk.root());
}

}  // namespace kintsugi::chunkserver
