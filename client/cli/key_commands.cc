// key status, rotate.
#include <chrono>
#include <filesystem>
#include <thread>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/host_files.h"
#include "client/cli/json.h"
#include "client/cli/local_daemon.h"
#include "client/cli/printable.h"
#include "client/cli/secret_rotation.h"
#include "client/cli/session.h"
#include "common/rpc/token.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using Other = rpc::SecretKeys::Other;
using std::chrono::steady_clock;

/// Daemons that read the very file take a change within a second or two.
constexpr auto kStepPatience = std::chrono::seconds(20);
constexpr auto kPoll = std::chrono::milliseconds(500);
constexpr size_t kNamesShown = 10;

struct KeyArguments {
  std::string keys;
  bool force = false, without_away = false;
};

Result<SecretFiles> secret_files(const KeyArguments& arguments) {
  if (!arguments.keys.empty()) return SecretFiles::of_key_directory(arguments.keys);
  const CredentialFiles files = CredentialFiles::of_environment();
  if (files.secret.empty())
    return Status{Code::kInvalidArgument,
                  fmt::format("which file holds the secret? {} names it, or --keys the directory that "
                              "`kintsugi cluster init` made",
                              kSecretVariable)};
  return SecretFiles(files.secret);
}

/// "a, b and 3 more".
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesShown) text += fmt::format(" and {} more", names.size() - kNamesShown);
  return text;
}

std::string names_of(const std::vector<proto::TokenClaims>& tokens) {
  std::vector<std::string> names;
  names.reserve(tokens.size());
  for (const proto::TokenClaims& token : tokens)
    names.push_back(token.name());
  return some_of(names);
}

/// Rounded up.
int minutes(double seconds) {
  return static_cast<int>(seconds / 60) + 1;
}

std::string_view word(proto::SecretStatusResponse::Other other) {
  switch (other) {
    case proto::SecretStatusResponse::NEXT: return "next";
    case proto::SecretStatusResponse::FORMER: return "former";
    default: return "none";
  }
}

std::string_view word(Other other) {
  switch (other) {
    case Other::kNone: return "none";
    case Other::kNext: return "next";
    case Other::kFormer: return "former";
  }
  return "none";
}

Json json_of(const DaemonSecrets& daemon) {
  const auto& has = daemon.has;
  return {{"name", daemon.name},
          {"address", daemon.address},
          {"in_use", daemon.asked.ok() ? id_text(has.in_use()) : ""},
          {"other", has.other() == 0 ? "" : id_text(has.other())},
          {"other_is", word(has.other_is())},
          {"in_use_seconds", has.in_use_seconds()},
          {"error", daemon.asked.ok() ? has.complaint() : daemon.asked.message()}};
}

/// "the secret at 10.0.0.50 (3 s ago), ...".
std::string names_of(const std::vector<SecretUser>& users) {
  std::vector<std::string> names;
  names.reserve(users.size());
  for (const SecretUser& user : users)
    names.push_back(fmt::format("{} ({:.0f} s ago)", shown_name(user.who), user.idle_seconds));
  return some_of(names);
}

/// "3 connections still use the old secret: ...".
std::string line_of(const std::vector<SecretUser>& users) {
  size_t connections = 0;
  for (const SecretUser& user : users)
    connections += user.connections;
  return fmt::format("{} still use{} the old secret: {}", counted(connections, "connection"),
                     connections == 1 ? "s" : "", names_of(users));
}

Json json_of(const std::vector<SecretUser>& users) {
  Json all = Json::array();
  for (const SecretUser& user : users)
    all.push_back(
        {{"who", user.who}, {"connections", user.connections}, {"idle_seconds", user.idle_seconds}});
  return all;
}

/// The token that this command proves itself with; none: it has the secret.
Result<std::optional<rpc::Principal>> own_token() {
  const CredentialFiles files = CredentialFiles::of_environment();
  if (files.token.empty()) return std::nullopt;
  KINTSUGI_ASSIGN(const rpc::Secret credential, rpc::load_credential(files.token, files.secret));
  KINTSUGI_ASSIGN(rpc::Principal token, rpc::principal_of(credential.claims()));
  return token;
}

/// kConflict: `--force` would end the token that the command runs with, and all that it does after that would fail.
Status check_own_token_stays(const rpc::SecretKeys& keys) {
  KINTSUGI_ASSIGN(const auto token, own_token());
  const bool stays = keys.other_is == Other::kFormer && token && token->secret == SecretIds(keys).own;
  if (!token || stays) return {};
  return {
      Code::kConflict,
      fmt::format("--force would end {}, which this command runs with: give the command the cluster's "
                  "secret in place of it (unset {}), or, once step 2 is done, a new token (kintsugi token "
                  "create)",
                  token->text(), kTokenVariable)};
}

/// One run of `key rotate`: takes as many steps as can be taken now.
class Rotation {
 public:
  Rotation(Session& session, BlockingClient& client, const KeyArguments& arguments, SecretFiles files)
      : session_(session), client_(client), arguments_(arguments), files_(std::move(files)) {}

  Status run();

 private:
  /// Takes the step that follows `keys`. True: there may be another one now.
  Result<bool> step(const rpc::SecretKeys& keys);
  Result<bool> drop(const rpc::SecretKeys& keys, const SecretIds& ids);
  /// Says who has used the old secret lately. kConflict: somebody has, and is not to be cut off without --force.
  Status tell_users();
  Status end_tokens(const std::vector<proto::TokenClaims>& ending);
  /// Waits until every daemon is ready for the step that follows. kConflict: some are not, and are named.
  Status await_daemons(const SecretIds& ids);
  /// Says what the operator has to do so that all daemons have the file.
  std::string advice(const SecretIds& ids) const;
  Status replace(const rpc::SecretKeys& keys, const std::string& what);
  void tell(const std::string& line) const {
    if (session_.json) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);  // it has been done, also when the command is interrupted now
  }

  Session& session_;
  BlockingClient& client_;
  const KeyArguments& arguments_;
  const SecretFiles files_;
  bool moved_ = false;    ///< this run has changed the files
  bool entered_ = false;  ///< a rotation was under way when this run began, or began with it
  double wait_seconds_ = 0;
  std::vector<DaemonSecrets> daemons_;
  std::vector<SecretUser> users_;  ///< users of the secret that is to be dropped
};

std::string Rotation::advice(const SecretIds& ids) const {
  // Once the rotation is done the command would begin another one.
  const std::string_view then = ids.other_is == Other::kNone ? "`kintsugi key status` tells when all have it"
                                                             : "then run the command again";
  if (!files_.copies().empty())
    return fmt::format("copy {}/hosts/NAME/{} to {} of each host; {}", arguments_.keys, kHostSecret,
                       kHostDirectory, then);
  return fmt::format("copy {} to where they have it, with its owner and mode; {}", files_.file(), then);
}

Status Rotation::await_daemons(const SecretIds& ids) {
  const auto give_up = steady_clock::now() + (moved_ ? kStepPatience : kStepPatience * 0);
  while (true) {
    KINTSUGI_ASSIGN(daemons_, ask_daemons(client_));
    std::vector<std::string> lacking;
    bool lacks_file = false;
    for (const DaemonSecrets& daemon : daemons_) {
      const std::string why = what_it_lacks(daemon, ids);
      const bool left_out = arguments_.without_away && daemon.away && !daemon.asked.ok();
      if (why.empty() || left_out) continue;
      lacking.push_back(fmt::format("{} {}", daemon.name, why));
      lacks_file |= daemon.asked.ok();
    }
    if (lacking.empty()) return {};
    if (steady_clock::now() >= give_up || session_.interrupted())
      return {Code::kConflict, some_of(lacking) + (lacks_file ? ": " + advice(ids) : "")};
    std::this_thread::sleep_for(kPoll);
  }
}

Status Rotation::replace(const rpc::SecretKeys& keys, const std::string& what) {
  KINTSUGI_TRY(files_.replace(keys));
  moved_ = true;
  tell(what);
  return {};
}

Status Rotation::end_tokens(const std::vector<proto::TokenClaims>& ending) {
  if (ending.empty()) return {};
  if (!arguments_.force)
    return {Code::kConflict,
            fmt::format("{} made with the old secret would end: {}; make new ones in their place (kintsugi "
                        "token create) and revoke them, or end them with --force",
                        counted(ending.size(), "token"), names_of(ending))};
  for (const proto::TokenClaims& token : ending) {
    const auto revoked = client_.run(client_.async().revoke_token(token.name()));
    if (!revoked && revoked.error().code() != Code::kNotFound) return revoked.error();
  }
  tell(fmt::format("{} made with the old secret ended: {}.", counted(ending.size(), "token"),
                   names_of(ending)));
  return {};
}

Status Rotation::tell_users() {
  if (users_.empty()) return {};
  if (wait_seconds_ > 0 || arguments_.force) {
    tell(fmt::format("{}. They are cut off when it is dropped.", line_of(users_)));
    return {};
  }
  return {Code::kConflict,
          fmt::format("{}; give these programs the new file or a token (kintsugi token create), or cut them "
                      "off with --force",
                      line_of(users_))};
}

Result<bool> Rotation::drop(const rpc::SecretKeys& keys, const SecretIds& ids) {
  KINTSUGI_ASSIGN(const auto ending, tokens_that_would_end(client_, ids.own));
  wait_seconds_ = arguments_.force ? 0 : seconds_until_expired(daemons_);
  users_ = users_of(daemons_, ids.other);
  if (wait_seconds_ > 0) {
    tell(
        fmt::format("The old secret {} is accepted for {} more minutes, until what it signed for reads and "
                    "writes has expired. Run the command again then; --force drops it now, and reads and "
                    "writes that are under way may fail.",
                    id_text(ids.other), minutes(wait_seconds_)));
    if (!ending.empty())
      tell(
          fmt::format("{} made with the old secret will end with it: {}. Make new ones in their place "
                      "(kintsugi token create) and revoke them until then.",
                      counted(ending.size(), "token"), names_of(ending)));
    KINTSUGI_TRY(tell_users());
    return false;
  }
  KINTSUGI_TRY(tell_users());
  KINTSUGI_TRY(end_tokens(ending));
  KINTSUGI_TRY(replace({.own = keys.own},
                       fmt::format("Step 3 of 3: the old secret {} is dropped.", id_text(ids.other))));
  return true;
}

Result<bool> Rotation::step(const rpc::SecretKeys& keys) {
  const SecretIds ids(keys);
  if (keys.other_is != Other::kNone) entered_ = true;
  if (keys.other_is == Other::kNext) {
    KINTSUGI_TRY(replace({.own = keys.other, .other_is = Other::kFormer, .other = keys.own},
                         fmt::format("Step 2 of 3: the new secret {} is used, and the old one accepted.",
                                     id_text(ids.other))));
    return true;
  }
  if (keys.other_is == Other::kFormer) return drop(keys, ids);
  if (std::exchange(entered_, true)) {
    std::vector<std::string> away;
    for (const DaemonSecrets& daemon : daemons_)
      if (!daemon.asked.ok()) away.push_back(daemon.name);
    tell(
        away.empty()
            ? fmt::format("Done: all {} have the new secret {} alone.", counted(daemons_.size(), "daemon"),
                          id_text(ids.own))
            : fmt::format("Done: {} of {} have the new secret {} alone; before {} start, they need the file.",
                          daemons_.size() - away.size(), counted(daemons_.size(), "daemon"), id_text(ids.own),
                          some_of(away)));
    return false;
  }
  KINTSUGI_ASSIGN(const rpc::SecretKey fresh, rpc::random_secret());
  const rpc::SecretKeys next{.own = keys.own, .other_is = Other::kNext, .other = fresh};
  KINTSUGI_TRY(replace(next, fmt::format("Step 1 of 3: the new secret {} is accepted beside the old one {}.",
                                         id_text(SecretIds(next).other), id_text(ids.own))));
  return true;
}

Status Rotation::run() {
  KINTSUGI_ASSIGN(rpc::SecretKeys keys, files_.read());
  std::error_code ignored;
  const auto file = std::filesystem::canonical(files_.file(), ignored);
  const auto lock = DirectoryLock::take(file.parent_path());
  if (!lock && lock.error().code() == Code::kConflict)
    return {Code::kConflict, fmt::format("another command works in {}: it rotates the secret, or starts or "
                                         "stops the cluster",
                                         file.parent_path().string())};
  if (!lock) return lock.error();
  KINTSUGI_ASSIGN(keys, files_.read());
  if (arguments_.force) KINTSUGI_TRY(check_own_token_stays(keys));
  KINTSUGI_ASSIGN(daemons_, ask_daemons(client_));
  KINTSUGI_TRY(check_file_is_current(SecretIds(keys), files_.file(), daemons_.front()));
  KINTSUGI_TRY(files_.level_copies());
  for (bool more = true; more;) {
    KINTSUGI_TRY(await_daemons(SecretIds(keys)));
    KINTSUGI_ASSIGN(more, step(keys));
    KINTSUGI_ASSIGN(keys, files_.read());
    if (!more || files_.copies().empty()) continue;
    // They lie on other hosts only once somebody has taken them there.
    tell(fmt::format("Now {}.", advice(SecretIds(keys))));
    more = false;
  }
  if (!session_.json) return {};
  const SecretIds ids(keys);
  print_json({{"in_use", id_text(ids.own)},
              {"other", ids.other == 0 ? "" : id_text(ids.other)},
              {"other_is", word(ids.other_is)},
              {"done", ids.other_is == Other::kNone},
              {"seconds_until_drop", wait_seconds_},
              {"users_of_old_secret", json_of(users_)},
              {"daemons", daemons_.size()}});
  return {};
}

Status rotate_key(Session& session, BlockingClient& client, const KeyArguments& arguments) {
  KINTSUGI_ASSIGN(SecretFiles files, secret_files(arguments));
  return Rotation(session, client, arguments, std::move(files)).run();
}

void print_daemon(const DaemonSecrets& daemon) {
  const auto& has = daemon.has;
  if (!daemon.asked.ok()) return fmt::print("{:<36} {}\n", shown_name(daemon.name), why_not_asked(daemon));
  const bool alone = has.other_is() == proto::SecretStatusResponse::NONE;
  fmt::print("{:<36} {:<16} {}{}\n", shown_name(daemon.name), id_text(has.in_use()),
             alone ? "-" : fmt::format("{} ({})", id_text(has.other()), word(has.other_is())),
             has.complaint().empty() ? "" : "  " + has.complaint());
}

Status key_status(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const std::vector<DaemonSecrets> daemons, ask_daemons(client));
  // The metaserver is the first, and signs tokens.
  const auto& first = daemons.front();
  const bool rotates = first.asked.ok() && first.has.other_is() != proto::SecretStatusResponse::NONE;
  const bool former = rotates && first.has.other_is() == proto::SecretStatusResponse::FORMER;
  const double wait_seconds = former ? seconds_until_expired(daemons) : 0;
  const std::vector<SecretUser> users =
      former ? users_of(daemons, first.has.other()) : std::vector<SecretUser>();
  std::vector<proto::TokenClaims> ending;
  if (rotates) {
    KINTSUGI_ASSIGN(ending, tokens_that_would_end(client, former ? first.has.in_use() : first.has.other()));
  }
  if (session.json) {
    Json all = Json::array(), tokens = Json::array();
    for (const DaemonSecrets& daemon : daemons)
      all.push_back(json_of(daemon));
    for (const proto::TokenClaims& token : ending)
      tokens.push_back(token.name());
    print_json({{"daemons", std::move(all)},
                {"tokens_of_old_secret", std::move(tokens)},
                {"users_of_old_secret", json_of(users)},
                {"seconds_until_drop", wait_seconds}});
    return {};
  }
  fmt::print("{:<36} {:<16} {}\n", "DAEMON", "SECRET", "ALSO ACCEPTED");
  for (const DaemonSecrets& daemon : daemons)
    print_daemon(daemon);
  if (!ending.empty())
    fmt::print("{} made with the old secret, which will end with it: {}\n", counted(ending.size(), "token"),
               names_of(ending));
  if (!users.empty()) fmt::print("{}\n", line_of(users));
  if (wait_seconds > 0)
    fmt::print("What the old secret signed for reads and writes will have expired in {} minutes.\n",
               minutes(wait_seconds));
  return {};
}

}  // namespace

std::vector<Command> key_commands() {
  const auto a = std::make_shared<KeyArguments>();
  return {
      {.name = "key",
       .help = "The cluster's secret: which one daemons have, and a new one in its place",
       .commands = {
           {.name = "status",
            .help = "Show which secret each daemon uses, and which one it accepts as well",
            .prints_json = true,
            .run = connected(key_status)},
           {.name = "rotate",
            .help = "Replace the cluster's secret: take the next step, and say what follows",
            .options =
                {{"--keys", &a->keys,
                  "Directory that `kintsugi cluster init` made; default: the file that "
                  "KINTSUGI_SECRET_FILE names"},
                 {"--without-away", &a->without_away,
                  "Do not wait for servers that are away: they need the new file before they start"},
                 {"--force", &a->force,
                  "Take all steps now, and drop the old secret at once: its tokens end, and reads and writes "
                  "may fail"}},
            .prints_json = true,
            .run = connected(a, rotate_key)}}}};
}

}  // namespace kintsugi::cli
