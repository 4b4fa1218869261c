/// One invocation of a command: the connection to the cluster, and the failures so far.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/cli/command.h"
#include "client/cli/interruption.h"
#include "client/lib/blocking_client.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// Environment variables that name the cluster: its metaserver's address, and the file with its secret.
inline constexpr const char* kMetaVariable = "KINTSUGI_META";
inline constexpr const char* kSecretVariable = "KINTSUGI_SECRET_FILE";
/// Names the file with a token, which is used in place of the secret.
inline constexpr const char* kTokenVariable = "KINTSUGI_TOKEN_FILE";

/// How this program proves to the cluster who it is.
struct CredentialFiles {
  std::string secret;
  std::string token{};  ///< empty: there is none, and the secret is used

  /// Returns the files that the environment names.
  static CredentialFiles of_environment();
};

/// The sentence for a person, which always names the kind of error.
std::string describe(const Status& status);

/// An error as --json has it, on one line: {"error":{"command":"put","code":"not found","message":"..."}}.
std::string error_json(std::string_view command, Code code, std::string_view message);

/// Lives as long as the command runs.
class Session {
 public:
  /// `command`: its words, as errors name it. `says_ok`: with --json run() prints {"ok": true} once the work is done,
  /// since the command has nothing else to tell.
  Session(std::string command, bool json, bool says_ok)
      : json(json), command_(std::move(command)), says_ok_(says_ok) {}

  /// The client of the cluster that the environment names; connects on first use. From then on an interruption cancels
  /// the client, and the process ends by it once the work has ended.
  Result<client::BlockingClient*> connect();
  /// A client for commands that know where the cluster is.
  static Result<std::unique_ptr<client::BlockingClient>> connect_to(const std::string& metaserver,
                                                                    const CredentialFiles& files,
                                                                    Duration retry_limit);

  /// Does the command's work and disconnects. Returns the exit code: 0, or 1 after at least one line on stderr.
  int run(const Run& work);

  /// Prints one line on stderr ("kintsugi: put: ...", or error_json's); the command then ends with 1 though it goes
  /// on. Any thread may call. Nothing is printed once the command is interrupted: whoever did that knows why it fails.
  void complain(const Status& status) { complain(status.code(), describe(status)); }
  void complain(Code code, std::string_view what);
  int complaints() const { return complaints_; }  ///< how many lines complain() printed

  bool interrupted() const { return interruption_ && interruption_->requested(); }
  /// Becomes readable when the command is interrupted (Interruption::descriptor). REQUIRES: connect() was called.
  int interruption_descriptor() const { return interruption_->descriptor(); }

  const bool json;  ///< --json was given: print one JSON document and nothing else

 private:
  /// The end of an error: the command that starts the cluster when it is one of this machine that is stopped, or
  /// nothing.
  std::string what_to_start(const Status& status) const;

  const std::string command_;
  const bool says_ok_;
  std::string secret_file_;  ///< set once the session is connected
  std::unique_ptr<client::BlockingClient> client_;
  std::optional<Interruption> interruption_;  ///< interrupts the client when a signal comes
  int complaints_ = 0;
};

}  // namespace kintsugi::cli
