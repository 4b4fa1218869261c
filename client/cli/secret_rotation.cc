#include "client/cli/secret_rotation.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "common/rpc/private_file.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

using Other = rpc::SecretKeys::Other;

constexpr std::string_view kSecret = "secret";
/// Daemons take a new file after a second, and clocks and disks are not exact.
constexpr double kMargin = 5;

bool accepts(const proto::SecretStatusResponse& has, uint64_t secret) {
  return has.in_use() == secret ||
         (has.other_is() != proto::SecretStatusResponse::NONE && has.other() == secret);
}

bool is_usable(const proto::StoredToken& token) {
  const int64_t now = std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  const int64_t expires = token.claims().expires_ns();
  return token.revoked_ns() == 0 && (expires == 0 || expires > now);
}

/// The end of a line about a daemon that cannot be asked: it tells the operator what to do about it.
std::string what_to_do(const DaemonSecrets& daemon) {
  switch (daemon.asked.code()) {
    case Code::kNotSupported: return "";  // the error says it
    case Code::kPermissionDenied: return "; give it the file that the metaserver has, and SIGHUP";
    default: break;
  }
  if (!daemon.away) return "; start it again, or look why it does not answer";
  return "; start it, or remove it (kintsugi server remove), or leave it out (--without-away) and give it "
         "the "
         "file before it starts";
}

/// The error of whoever was asked for something that its build does not know, in words that help.
Status for_older_build(Status asked) {
  if (asked.code() != Code::kNotSupported) return asked;
  return {Code::kNotSupported, "its build cannot have two secrets: upgrade it"};
}

}  // namespace

Result<SecretFiles> SecretFiles::of_key_directory(const std::string& directory) {
  SecretFiles files(fmt::format("{}/{}", directory, kSecret));
  std::error_code error;
  if (!fs::exists(files.file_, error) || !fs::exists(directory + "/hosts", error))
    return Status{
        Code::kNotFound,
        fmt::format("{} is not what `kintsugi cluster init` made: it has no secret, or no hosts", directory)};
  for (const auto& host : fs::directory_iterator(directory + "/hosts", error)) {
    const std::string copy = host.path() / kSecret;
    if (fs::exists(copy, error)) files.copies_.push_back(copy);
  }
  if (error) return status_from_errno(error.value(), directory + "/hosts");
  std::ranges::sort(files.copies_);
  return files;
}

Status SecretFiles::replace(const rpc::SecretKeys& keys) const {
  KINTSUGI_TRY(rpc::replace_private_file(file_, "secret file", rpc::secret_text(keys)));
  return level_copies();
}

Status SecretFiles::level_copies() const {
  KINTSUGI_ASSIGN(const rpc::SecretKeys keys, read());
  for (const std::string& copy : copies_) {
    const auto has = rpc::read_secret(copy);
    if (has && *has == keys) continue;
    KINTSUGI_TRY(rpc::replace_private_file(copy, "secret file", rpc::secret_text(keys)));
  }
  return {};
}

SecretIds::SecretIds(const rpc::SecretKeys& keys) : other_is(keys.other_is) {
  const std::vector<rpc::Secret> secrets = rpc::Secret::with(keys).each();
  own = secrets.front().id();
  if (secrets.size() > 1) other = secrets.back().id();
}

std::string id_text(uint64_t id) {
  return fmt::format("{:016x}", id);
}

Result<std::vector<DaemonSecrets>> ask_daemons(client::BlockingClient& client) {
  const auto listed = client.run(client.async().list_daemons());
  if (!listed) return for_older_build(listed.error()).with_context("metaserver");
  std::vector<DaemonSecrets> daemons;
  for (const proto::ListedDaemon& each : listed->daemons()) {
    DaemonSecrets& daemon = daemons.emplace_back();
    daemon.name = each.name();
    daemon.address = each.address();
    daemon.away = each.away();
    const auto at = runtime::Endpoint::parse(each.address());
    // Only the metaserver is listed without an address. Were it asked in place of another one, its answer would count for that.
    if (!at && daemons.size() > 1) {
      daemon.asked = at.error();
      continue;
    }
    const auto has = client.run(client.async().secret_status(at ? std::optional(*at) : std::nullopt));
    if (has)
      daemon.has = *has;
    else
      daemon.asked = for_older_build(has.error());
  }
  // After the metaserver; 2 before 10.
  std::ranges::sort(daemons.begin() + 1, daemons.end(), {},
                    [](const DaemonSecrets& daemon) { return std::pair(daemon.name.size(), daemon.name); });
  return daemons;
}

std::string why_not_asked(const DaemonSecrets& daemon) {
  return fmt::format("cannot be asked: {}{}", daemon.asked.message(), what_to_do(daemon));
}

std::string what_it_lacks(const DaemonSecrets& daemon, const SecretIds& file) {
  const auto& has = daemon.has;
  if (!daemon.asked.ok()) return why_not_asked(daemon);
  if (!has.complaint().empty()) return has.complaint();
  if (file.other_is == Other::kNext)
    return accepts(has, file.other) ? "" : "does not accept the new secret yet";
  if (has.in_use() != file.own) return "does not use the new secret yet";
  if (file.other_is == Other::kFormer || has.other_is() == proto::SecretStatusResponse::NONE) return "";
  return "accepts another secret still";
}

Status check_file_is_current(const SecretIds& file, const std::string& path,
                             const DaemonSecrets& metaserver) {
  if (!metaserver.asked.ok()) return {};
  const auto& has = metaserver.has;
  const bool same = has.in_use() == file.own && has.other() == file.other;
  bool next = false;
  switch (has.other_is()) {
    case proto::SecretStatusResponse::NEXT:
      next = file.other_is == Other::kFormer && file.own == has.other() && file.other == has.in_use();
      break;
    case proto::SecretStatusResponse::FORMER:
      next = file.other_is == Other::kNone && file.own == has.in_use();
      break;
    default: next = file.other_is == Other::kNext && file.own == has.in_use();
  }
  if (same || next) return {};
  return {Code::kConflict,
          fmt::format(
              "{} is not the file of the secret that the cluster has now, but an older one: the metaserver "
              "uses the secret {}, and the file names {}. Take the one that is on the metaserver's host",
              path, id_text(has.in_use()), id_text(file.own))};
}

double seconds_until_expired(const std::vector<DaemonSecrets>& daemons) {
  double signed_for = 0, in_use = std::numeric_limits<double>::max();
  for (const DaemonSecrets& daemon : daemons) {
    if (!daemon.asked.ok()) continue;
    signed_for = std::max(signed_for, daemon.has.signed_seconds());
    in_use = std::min(in_use, daemon.has.in_use_seconds());
  }
  return std::max(0.0, signed_for + kMargin - in_use);
}

std::vector<SecretUser> users_of(const std::vector<DaemonSecrets>& daemons, uint64_t secret) {
  double all_changed = std::numeric_limits<double>::max();  // so many seconds ago
  for (const DaemonSecrets& daemon : daemons)
    if (daemon.asked.ok()) all_changed = std::min(all_changed, daemon.has.in_use_seconds());
  std::map<std::string, SecretUser> by_name;
  for (const DaemonSecrets& daemon : daemons) {
    for (const proto::SecretUse& use : daemon.has.uses()) {
      if (use.secret() != secret || use.idle_seconds() > all_changed - kMargin) continue;
      const auto [at, is_new] = by_name.try_emplace(use.who(), SecretUser{use.who(), 0, use.idle_seconds()});
      at->second.connections += use.connections();
      at->second.idle_seconds = std::min(at->second.idle_seconds, use.idle_seconds());
    }
  }
  std::vector<SecretUser> users;
  users.reserve(by_name.size());
  for (auto& [name, user] : by_name)
    users.push_back(std::move(user));
  std::ranges::stable_sort(users, {}, &SecretUser::idle_seconds);
  return users;
}

Result<std::vector<proto::TokenClaims>> tokens_that_would_end(client::BlockingClient& client, uint64_t own) {
  std::vector<proto::TokenClaims> ending;
  for (uint64_t after = 0;;) {
    KINTSUGI_ASSIGN(const proto::ListTokensResponse page, client.run(client.async().list_tokens(after)));
    for (const proto::StoredToken& token : page.tokens()) {
      after = token.claims().id();
      if (is_usable(token) && token.claims().secret() != own) ending.push_back(token.claims());
    }
    if (!page.more() || page.tokens().empty()) return ending;
  }
}

}  // namespace kintsugi::cli
