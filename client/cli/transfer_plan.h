/// The files and directories that a put or get moves, found out before the first byte moves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/lib/client.h"

namespace kintsugi::cli {

struct TransferFile {
  std::string local;
  std::string remote;
  uint64_t bytes = 0;  ///< 0 when the size is unknown, as with a pipe
};

struct TransferDirectory {
  std::string local;
  std::string remote;
  uint32_t mode = 0;  ///< permission bits of the source
};

class TransferPlan {
 public:
  /// Is told what is left out, in a sentence for a person.
  using Complain = std::function<void(Code, std::string_view)>;

  /// Adds what a put of `source` ("-": standard input) to the path `target` moves. kInvalidArgument for a pipe, a
  /// socket or a device, which may never end. A symbolic link that is named here is followed; those met inside a tree
  /// are left out, as are pipes, sockets and devices there and what cannot be listed.
  Status add_put(const std::string& source, const std::string& target, const Complain& complain);
  /// Adds what a get of the cluster's `source` moves; a local directory at `target` gets it inside. What is neither a
  /// file nor a directory there is left out. `complain` outlives the call.
  asio::awaitable<Status> add_get(client::Client& client, std::string source, std::string target,
                                  const Complain& complain);

  const std::vector<TransferFile>& files() const { return files_; }
  /// Each directory after its parent.
  const std::vector<TransferDirectory>& directories() const { return directories_; }
  uint64_t bytes() const { return bytes_; }  ///< sum over all files

 private:
  void add_local_entries(TransferDirectory directory, const Complain& complain);
  asio::awaitable<Status> add_remote_entries(client::Client& client, TransferDirectory directory,
                                             const Complain& complain);
  void add_file(std::string local, std::string remote, uint64_t bytes);

  std::vector<TransferFile> files_;
  std::vector<TransferDirectory> directories_;
  uint64_t bytes_ = 0;
};

/// Where a put of `source` goes: `destination` itself, or a name in it when that is a directory. kInvalidArgument when
/// the source has no name.
Result<std::string> put_target(const std::string& source, const std::string& destination,
                               bool into_directory);

}  // namespace kintsugi::cli
