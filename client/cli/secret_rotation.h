/// One secret of the cluster follows another while the cluster runs, step by step. Which step is next follows from the
/// secret's file and from what the daemons say that they have, so that a rotation continues where it was interrupted:
///
/// ```
/// file           what has to hold before the next step
/// A              every daemon has A alone
/// A, next B      every daemon accepts B
/// B, former A    every daemon proves and signs with B; what A signed has expired
/// B              every daemon has B alone: the rotation is done
/// ```
#pragma once

#include <string>
#include <vector>

#include "client/lib/blocking_client.h"
#include "common/base/status.h"
#include "common/proto/token.pb.h"
#include "common/rpc/secret.h"

namespace kintsugi::cli {

/// Where the cluster's secret lies: one file, and copies of it that are for other hosts.
class SecretFiles {
 public:
  explicit SecretFiles(std::string file) : file_(std::move(file)) {}
  /// What `kintsugi cluster init` made: the cluster's own file, and one for each host that has daemons. kNotFound.
  static Result<SecretFiles> of_key_directory(const std::string& directory);

  const std::string& file() const { return file_; }
  const std::vector<std::string>& copies() const { return copies_; }
  Result<rpc::SecretKeys> read() const { return rpc::read_secret(file_); }
  /// Replaces the file, and then the copies.
  Status replace(const rpc::SecretKeys& keys) const;
  /// Gives the copies what the file has: an interruption may have left them behind.
  Status level_copies() const;

 private:
  std::string file_;
  std::vector<std::string> copies_;
};

/// A daemon, and what it said when it was asked.
struct DaemonSecrets {
  std::string name, address;
  bool away = false;  ///< the metaserver does not hear it either
  Status asked{};
  proto::SecretStatusResponse has{};
};

/// Secrets as they may be shown (Secret::id).
struct SecretIds {
  explicit SecretIds(const rpc::SecretKeys& keys);
  uint64_t own = 0, other = 0;
  rpc::SecretKeys::Other other_is;
};
std::string id_text(uint64_t id);

/// Asks every daemon that the metaserver knows, which is the first. A daemon that does not answer has its error.
Result<std::vector<DaemonSecrets>> ask_daemons(client::BlockingClient& client);
/// Says that the daemon cannot be asked, why, and what to do about that. REQUIRES: it did not answer.
std::string why_not_asked(const DaemonSecrets& daemon);
/// Why the daemon is not ready for the step that follows the file; empty: it is.
std::string what_it_lacks(const DaemonSecrets& daemon, const SecretIds& file);
/// kConflict: the file is of another time than what the daemon has, as a copy from before an earlier rotation is. A file
/// that belongs to the rotation says what the daemon has, or is one step further.
Status check_file_is_current(const SecretIds& file, const std::string& path, const DaemonSecrets& metaserver);
/// How many seconds it takes until nothing that the former secret signed is good any more, tokens apart.
double seconds_until_expired(const std::vector<DaemonSecrets>& daemons);

/// Programs at one address that use a secret that is to be dropped, or a token that it signed.
struct SecretUser {
  std::string who;
  uint32_t connections = 0;
  double idle_seconds = 0;  ///< since their latest request
};
/// Those who have used `secret` since every daemon had another one in its place, the latest first: they do not follow the
/// file. A daemon of an earlier build tells of none.
std::vector<SecretUser> users_of(const std::vector<DaemonSecrets>& daemons, uint64_t secret);

/// The tokens that may be used now, and that another secret than `own` signed.
Result<std::vector<proto::TokenClaims>> tokens_that_would_end(client::BlockingClient& client, uint64_t own);

}  // namespace kintsugi::cli
