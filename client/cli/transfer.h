/// Moves files and whole trees between the local file system and the cluster: what a TransferPlan lists, many files at
/// once, each complete or not there. What fails is complained about; the rest continues.
#pragma once

#include <string>
#include <vector>

#include "client/cli/session.h"

namespace kintsugi::cli {

struct TransferOptions {
  bool replace = false;  ///< replace existing files, and merge into existing directories
  std::string policy;    ///< policy of the files that are put; empty: the directory's policy
};

/// Stores local files and trees. Several sources need a directory as destination.
Status put(Session& session, client::BlockingClient& client, const std::vector<std::string>& sources,
           const std::string& destination, const TransferOptions& options);
/// Fetches files and trees. Several sources need a local directory as destination.
Status get(Session& session, client::BlockingClient& client, const std::vector<std::string>& sources,
           const std::string& destination, const TransferOptions& options);
/// Writes files to standard output, one after the other.
Status cat(Session& session, client::BlockingClient& client, const std::vector<std::string>& paths);

}  // namespace kintsugi::cli
