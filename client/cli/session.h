/// What the commands of one invocation share: the connection, how to print, what went wrong.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "client/lib/blocking_client.h"
#include "common/base/ids.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// Environment names of DESIGN section 6.
inline constexpr const char* kMetaVariable = "KINTSUGI_META";
inline constexpr const char* kSecretVariable = "KINTSUGI_SECRET_FILE";

class Session {
 public:
  /// The client of the cluster that the environment names; connects on first use.
  Result<client::BlockingClient*> connect();
  /// For commands that know where the cluster is.
  static Result<std::unique_ptr<client::BlockingClient>> connect_to(const std::string& metaserver,
                                                                    const std::string& secret_file,
                                                                    Duration retry_limit);

  /// Chosen by parsing: the command to run once the whole line is known to be right.
  void choose(std::string command, std::function<Status()> action);
  /// Runs it. The exit code: 0, or 1 after one line on stderr.
  int run();

  /// One line on stderr ("kintsugi: put: ..."); the command then ends with 1 though it goes on. Any thread.
  void complain(std::string_view what);

  bool json = false;  ///< --json was given

 private:
  std::unique_ptr<client::BlockingClient> client_;
  std::string command_;
  std::function<Status()> action_;
  int complaints_ = 0;
};

/// The sentence for a person, which always names the kind of error.
std::string describe(const Status& status);

/// kInvalidArgument unless the remote path is absolute.
Status check_remote(const std::string& path);
/// "81:3" is chunk 3 of stripe 81. kInvalidArgument.
Result<ChunkId> parse_chunk(const std::string& text);
/// "/a/b" and "c": "/a/b/c".
std::string join(const std::string& directory, const std::string& name);
/// The last component without trailing slashes; empty for "/".
std::string base_name(const std::string& path);
/// Without trailing slashes, "/" stays.
std::string trimmed(std::string path);

}  // namespace kintsugi::cli
