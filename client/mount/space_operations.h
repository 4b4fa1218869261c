/// How much room there is, for df.
#pragma once

#include <optional>
#include <utility>

#include "client/lib/client.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/last_known.h"
#include "common/runtime/clock.h"

namespace kintsugi::mount {

class SpaceOperations {
 public:
  /// References outlive it.
  SpaceOperations(runtime::Clock& clock, client::Client& client, LastKnown& last_known)
      : clock_(clock), client_(client), last_known_(last_known) {}

  asio::awaitable<Result<FileSystemSpace>> space(const Caller& caller, NodeId node);
  /// Asks for what LastKnown holds, before anybody needs it.
  asio::awaitable<void> learn(Context context);

 private:
  asio::awaitable<Result<FileSystemSpace>> cluster_space(Context context);

  runtime::Clock& clock_;
  client::Client& client_;
  LastKnown& last_known_;
  /// Space of the whole cluster, and when it was asked for.
  std::optional<std::pair<TimePoint, FileSystemSpace>> space_;
};

}  // namespace kintsugi::mount
