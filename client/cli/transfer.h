/// Moving files and whole trees between the local file system and the cluster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include "client/cli/progress.h"
#include "client/cli/session.h"
#include "client/lib/client.h"

namespace kintsugi::cli {

/// One file to move. Directories were made before.
struct TransferItem {
  std::string local;
  std::string remote;
  uint64_t bytes = 0;
};

struct TransferPlan {
  std::vector<TransferItem> files;
  std::vector<TransferItem> directories;  ///< parents first; `bytes` holds the mode
  uint64_t bytes = 0;                     ///< of all files
};

struct TransferOptions {
  bool replace = false;
  std::string policy;
};

/// Moves many files at once, each complete or not there. What fails is complained about; the rest goes on.
class Transfer {
 public:
  static constexpr size_t kParallelFiles = 16;
  static constexpr size_t kDiskThreads = 4;

  Transfer(Session& session, client::BlockingClient& client, TransferOptions options);
  ~Transfer();

  Status put(const std::vector<std::string>& sources, const std::string& destination);
  Status get(const std::string& source, const std::string& destination);
  Status cat(const std::vector<std::string>& paths);

 private:
  using MoveOne = asio::awaitable<Status> (Transfer::*)(const TransferItem&);

  Result<std::string> put_target(const std::string& source, const std::string& destination,
                                 bool into_directory);
  /// Before anything is sent: kAlreadyExists unless replacing.
  Status check_free(const std::string& target);
  Status plan_put(const std::string& source, const std::string& target, TransferPlan& plan);
  asio::awaitable<Status> plan_get(std::string source, std::string target, TransferPlan& plan);
  asio::awaitable<Status> make_remote_directories(const TransferPlan& plan);
  Status make_local_directories(const TransferPlan& plan);

  asio::awaitable<void> move_all(const TransferPlan& plan, MoveOne move);
  asio::awaitable<void> worker(const TransferPlan& plan, MoveOne move);
  asio::awaitable<Status> put_one(const TransferItem& item);
  asio::awaitable<Status> get_one(const TransferItem& item);
  asio::awaitable<Status> cat_all(std::vector<std::string> paths);
  std::function<void(uint64_t)> progress();
  void report(const TransferPlan& plan) const;

  Session& session_;
  client::BlockingClient& client_;
  const TransferOptions options_;
  asio::thread_pool threads_;
  std::unique_ptr<Progress> progress_;
  size_t next_file_ = 0;
  size_t moved_files_ = 0;
};

}  // namespace kintsugi::cli
