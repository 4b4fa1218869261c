/// One invocation of a command: the connection to the cluster, and the failures so far.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/cli/command.h"
#include "client/lib/blocking_client.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// Environment variables that name the cluster: its metaserver's address, and the file with its secret.
inline constexpr const char* kMetaVariable = "KINTSUGI_META";
inline constexpr const char* kSecretVariable = "KINTSUGI_SECRET_FILE";

/// Lives as long as the command runs.
class Session {
 public:
  /// `command`: its words, as errors name it.
  Session(std::string command, bool json) : json(json), command_(std::move(command)) {}

  /// The client of the cluster that the environment names; connects on first use.
  Result<client::BlockingClient*> connect();
  /// A client for commands that know where the cluster is.
  static Result<std::unique_ptr<client::BlockingClient>> connect_to(const std::string& metaserver,
                                                                    const std::string& secret_file,
                                                                    Duration retry_limit);

  /// Does the command's work and disconnects. Returns the exit code: 0, or 1 after one line on stderr.
  int run(const Run& work);

  /// Prints one line on stderr ("kintsugi: put: ..."); the command then ends with 1 though it goes on. Any thread may call.
  void complain(std::string_view what);

  const bool json;  ///< --json was given: the command prints one JSON document and nothing else

 private:
  const std::string command_;
  std::unique_ptr<client::BlockingClient> client_;
  int complaints_ = 0;
};

/// The sentence for a person, which always names the kind of error.
std::string describe(const Status& status);

}  // namespace kintsugi::cli
