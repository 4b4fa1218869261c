#include "client/mount/space_operations.h"

#include <algorithm>

#include "client/mount/told_inodes.h"

namespace kintsugi::mount {
namespace {

constexpr Duration kSpaceKnownFor = 1s;

}  // namespace

asio::awaitable<Result<FileSystemSpace>> SpaceOperations::space(const Caller& caller, NodeId node) {
  const Context context = last_known_.asking(caller.context, last_known_.space.has_value());
  const auto told = co_await cluster_space(context);
  if (!told && last_known_.space && LastKnown::is_away(told.error())) co_return *last_known_.space;
  if (!told) co_return told.error();
  FileSystemSpace space = *told;
  last_known_.space = space;
  // Where quotas hold there is no more room than they leave. What cannot be asked for one limits nothing here.
  const auto limits = co_await client_.quotas_of(node, context);
  if (!limits) co_return space;
  for (const proto::Quota& quota : limits->quotas()) {
    if (quota.has_max_bytes()) {
      const uint64_t left = quota.max_bytes() - std::min(quota.bytes(), quota.max_bytes());
      space.total_blocks = std::min(space.total_blocks, quota.max_bytes() / kBlockBytes);
      space.free_blocks = space.available_blocks = std::min(space.free_blocks, left / kBlockBytes);
    }
    if (quota.has_max_files()) {
      space.files = std::min(space.files, quota.max_files());
      space.free_files =
          std::min(space.free_files, quota.max_files() - std::min(quota.files(), quota.max_files()));
    }
  }
  co_return space;
}

asio::awaitable<Result<FileSystemSpace>> SpaceOperations::cluster_space(Context context) {
  if (space_ && clock_.now() - space_->first < kSpaceKnownFor) co_return space_->second;
  const auto free = co_await client_.disk_free(context);
  if (!free) co_return free.error();
  FileSystemSpace space;
  space.block_bytes = kBlockBytes;
  // Bytes of files, not of disks: what the code adds is not the user's.
  const double share = free->free_bytes() == 0 ? 0
                                               : static_cast<double>(free->storable_bytes()) /
                                                     static_cast<double>(free->free_bytes());
  const auto total = static_cast<uint64_t>(static_cast<double>(free->total_bytes()) * share);
  space.free_blocks = space.available_blocks = free->storable_bytes() / kBlockBytes;
  space.total_blocks = std::max(total / kBlockBytes, space.free_blocks);
  space.files = free->files() + (uint64_t{1} << 40);
  space.free_files = uint64_t{1} << 40;
  space_.emplace(clock_.now(), space);
  co_return space;
}

asio::awaitable<void> SpaceOperations::learn(Context context) {
  if (const auto told = co_await cluster_space(context)) last_known_.space = *told;
}

}  // namespace kintsugi::mount
