#include "chunkserver/store/owner.h"

namespace kintsugi::chunkserver {
namespace {

enum class FullDisks { kFail, kMayLag };

/// A full disk may keep an older record of the same server in the same cluster: its chunks can be read, and other disks
/// know more.
asio::awaitable<Status> save_on_all(StoreRoots roots, const Identity& identity, FullDisks full) {
  for (auto& root : roots) {
    if (root->disk.failed() || root->identity == identity) continue;
    const Status saved = co_await save_identity(root->disk, identity);
    const bool same_owner =
        root->identity.server == identity.server && root->identity.cluster == identity.cluster;
    if (saved.code() == Code::kNoSpace && same_owner && full == FullDisks::kMayLag) continue;
    KINTSUGI_CO_TRY(saved);
    root->identity = identity;
  }
  co_return Status{};
}

std::string describe(const Identity& identity) {
  const std::string server = identity.number != 0 ? fmt::format("{}", identity.number)
                                                  : fmt::format("{:016x}", identity.server.value);
  return fmt::format("server {} of cluster '{}'", server, identity.cluster);
}

}  // namespace

asio::awaitable<Result<Identity>> agree_on_identity(StoreRoots roots, runtime::Random& random) {
  Identity identity;
  std::string named_by;
  for (auto& root : roots) {
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
        loaded->cluster == identity.cluster || loaded->cluster.empty() || identity.cluster.empty();
    if (identity.server && (identity.server != loaded->server || !same_cluster)) {
      co_return Status{Code::kConflict, fmt::format("disk {} belongs to {}, disk {} to {}", root->disk.root(),
                                                    describe(*loaded), named_by, describe(identity))};
    }
    identity.server = loaded->server;
    if (!loaded->cluster.empty()) identity.cluster = loaded->cluster;
    if (loaded->number != 0) identity.number = loaded->number;
    // Positions of one cluster only grow, so that the greatest is the latest that any of the disks has seen.
    if (loaded->metadata.position >= identity.metadata.position) identity.metadata = loaded->metadata;
    named_by = root->disk.root();
  }
  // A disk that cannot be read now may be the one that knows: another identity on those beside it would keep this server
  // from starting for good once all of them can be read.
  for (auto& root : roots) {
    if (identity.server || !root->disk.failed()) continue;
    co_return Status{
        Code::kUnavailable,
        fmt::format("disk {} cannot be used, and no other one tells which server this is: mend it, or take "
                    "it out of the configuration",
                    root->disk.root())};
  }
  while (!identity.server)
    identity.server = ServerId(random.next());
  for (auto& root : roots) {
    if (root->disk.failed() || root->identity == identity) continue;
    Status saved = co_await save_identity(root->disk, identity);
    // A disk that is full keeps an older mark: another one has the later mark, and its chunks can still be read.
    if (saved.code() == Code::kNoSpace && root->identity.server) continue;
    if (!saved.ok()) root->disk.fail(saved);
    root->identity = identity;
  }
  co_return identity;
}

asio::awaitable<Status> join_cluster(StoreRoots roots, Identity& identity, std::string cluster,
                                     uint32_t number) {
  if (!identity.cluster.empty() && identity.cluster != cluster) {
    co_return Status{Code::kConflict,
                     fmt::format("the disks of this server belong to cluster '{}', the metaserver to '{}'",
                                 identity.cluster, cluster)};
  }
  identity.cluster = std::move(cluster);
  identity.number = number;
  co_return co_await save_on_all(roots, identity, FullDisks::kMayLag);
}

asio::awaitable<Status> keep_metadata_mark(StoreRoots roots, Identity& identity, MetadataMark mark) {
  identity.metadata = mark;
  co_return co_await save_on_all(roots, identity, FullDisks::kFail);
}

}  // namespace kintsugi::chunkserver
