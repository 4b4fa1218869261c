#include "chunkserver/store/owner.h"

#include <algorithm>

#include "common/log/log.h"
#include "common/proto/formats.h"

namespace kintsugi::chunkserver {
namespace {

/// A disk that is full or read-only may keep an older record of the same server in the same cluster: its chunks can be
/// read, and other disks know more.
bool may_lag(const Status& saved, const Identity& on_disk, const Identity& wanted) {
  const bool cannot_write = saved.code() == Code::kNoSpace || saved.code() == Code::kReadOnlyDevice;
  return cannot_write && on_disk.server == wanted.server && on_disk.cluster == wanted.cluster;
}

/// Makes `wanted`, as it is when the writes before this one have ended, durable on the disk. All of them use one
/// temporary file.
asio::awaitable<Status> save(StoreRoot& root, const Identity& wanted) {
  KINTSUGI_CO_TRY(co_await root.identity_turn.acquire(TimePoint::max()));
  const Identity identity = wanted;
  const Status saved = co_await save_identity(root.disk, identity);
  if (saved.ok()) root.identity = identity;
  root.identity_turn.release();
  co_return saved;
}

bool same_owner(const Identity& a, const Identity& b) {
  return a.server == b.server && a.cluster == b.cluster && a.number == b.number && a.format == b.format;
}

std::string describe(const Identity& identity) {
  const std::string server = identity.number != 0 ? fmt::format("{}", identity.number)
                                                  : fmt::format("{:016x}", identity.server.value);
  return fmt::format("server {} of cluster '{}'", server, identity.cluster);
}

}  // namespace

asio::awaitable<Status> read_identity(StoreRoot& root) {
  KINTSUGI_CO_ASSIGN(root.identity, co_await load_identity(root.disk));
  const uint32_t format = std::max(root.identity.format, proto::kUnsaidFormat);
  co_return proto::check_format(format, fmt::format("disk {}", root.disk.root()));
}

Result<Identity> agree_on_identity(StoreRoots roots, runtime::Random& random) {
  Identity identity;
  std::string named_by;
  for (const auto& root : roots) {
    const Identity& here = root->identity;
    if (root->disk.failed() || !here.server) continue;
    const bool same_cluster =
        here.cluster == identity.cluster || here.cluster.empty() || identity.cluster.empty();
    if (identity.server && (identity.server != here.server || !same_cluster)) {
      return Status{Code::kConflict, fmt::format("disk {} belongs to {}, disk {} to {}", root->disk.root(),
                                                 describe(here), named_by, describe(identity))};
    }
    identity.server = here.server;
    if (!here.cluster.empty()) identity.cluster = here.cluster;
    if (here.number != 0) identity.number = here.number;
    identity.format = std::max(identity.format, here.format);
    // Positions of one cluster only grow, so that the greatest is the latest that any of the disks has seen.
    if (here.metadata.position >= identity.metadata.position) identity.metadata = here.metadata;
    named_by = root->disk.root();
  }
  // A disk that cannot be read now may be the one that knows: another identity on those beside it would keep this
  // server from starting for good once all of them can be read.
  for (const auto& root : roots) {
    if (identity.server || !root->disk.failed()) continue;
    return Status{
        Code::kUnavailable,
        fmt::format("disk {} cannot be used, and no other one tells which server this is: mend it, or take "
                    "it out of the configuration",
                    root->disk.root())};
  }
  while (!identity.server)
    identity.server = ServerId(random.next());
  return identity;
}

Status check_identity(const StoreRoot& root, const Identity& identity) {
  const Identity& here = root.identity;
  const bool same_cluster =
      here.cluster == identity.cluster || here.cluster.empty() || identity.cluster.empty();
  if (!here.server || (here.server == identity.server && same_cluster)) return {};
  return {Code::kConflict, fmt::format("disk {} belongs to {}, the others to {}", root.disk.root(),
                                       describe(here), describe(identity))};
}

asio::awaitable<Status> keep_identity(StoreRoot& root, Identity identity) {
  if (root.identity == identity) co_return Status{};
  const Status saved = co_await save_identity(root.disk, identity);
  // A disk that is full keeps an older mark: another one has the later mark, and its chunks can still be read.
  const bool lags = saved.code() == Code::kNoSpace || saved.code() == Code::kReadOnlyDevice;
  if (lags && root.identity.server) co_return Status{};
  if (!saved.ok()) root.disk.fail(saved);
  root.identity = std::move(identity);
  co_return saved;
}

Status join_cluster(Identity& identity, std::string cluster, uint32_t number, uint32_t format) {
  if (!identity.cluster.empty() && identity.cluster != cluster) {
    return Status{Code::kConflict,
                  fmt::format("the disks of this server belong to cluster '{}', the metaserver to '{}'",
                              identity.cluster, cluster)};
  }
  identity.cluster = std::move(cluster);
  identity.number = number;
  // Metadata that was put back may have an older one than the chunks.
  identity.format = std::max(identity.format, format);
  return {};
}

asio::awaitable<Status> keep_owner(StoreRoot& root, const Identity& identity) {
  // The mark of the metadata has its own time: a server that registers again waits for no disk.
  if (same_owner(root.identity, identity)) co_return Status{};
  const Status saved = co_await save(root, identity);
  co_return may_lag(saved, root.identity, identity) ? Status{} : saved;
}

asio::awaitable<void> save_mark(StoreRoot& root, const Identity& identity) {
  if (root.identity == identity) co_return;
  root.saving_mark = true;
  const Status saved = co_await save(root, identity);
  root.saving_mark = false;
  if (!saved.ok())
    log::warning("disk {} does not get the mark of the metadata: {}", root.disk.root(), saved.to_string());
}

}  // namespace kintsugi::chunkserver
