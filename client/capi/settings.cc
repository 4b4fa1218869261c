#include "client/capi/settings.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <unistd.h>

#include "common/rpc/token.h"

namespace kintsugi::capi {
namespace {

constexpr size_t kMaxGroups = 65536;
constexpr uint32_t kMaxOutstanding = 65536;
constexpr uint64_t kMinDirtyBytes = 16 << 20;
constexpr uint64_t kMaxMilliseconds = uint64_t{1000} * 3600 * 24 * 365;
/// How long the structure was in the first version. It grows at its end only.
constexpr size_t kSmallestOptions = offsetof(kintsugi_options, log_file) + sizeof(kintsugi_options::log_file);

Duration milliseconds(uint64_t count) {
  return std::chrono::milliseconds(count);
}

std::string given_or_environment(const char* given, const char* variable) {
  if (given == nullptr) given = std::getenv(variable);
  return given == nullptr ? "" : given;
}

Result<proto::Caller> caller_of(const kintsugi_options& options) {
  proto::Caller caller;
  const bool own = options.uid == KINTSUGI_OWN_ID || options.uid == ::geteuid();
  caller.set_uid(options.uid == KINTSUGI_OWN_ID ? ::geteuid() : options.uid);
  caller.set_gid(options.gid == KINTSUGI_OWN_ID ? ::getegid() : options.gid);
  if (options.group_count > kMaxGroups) return invalid("too many groups");
  if (options.groups != nullptr) {
    caller.mutable_groups()->Add(options.groups, options.groups + options.group_count);
  } else if (own) {
    std::vector<gid_t> groups(kMaxGroups);
    const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
    if (count > 0) caller.mutable_groups()->Add(groups.begin(), groups.begin() + count);
  }
  return caller;
}

Status check(const kintsugi_options& options) {
  if (options.max_outstanding == 0 || options.max_outstanding > kMaxOutstanding)
    return invalid("max_outstanding is not between 1 and 65,536");
  if (options.dirty_bytes < kMinDirtyBytes) return invalid("dirty_bytes is less than 16 MiB");
  if (options.memory_bytes < client::kMinMemoryBytes) return invalid("memory_bytes is less than 64 MiB");
  if (options.umask > 0777) return invalid("umask is more than 0777");
  for (const uint64_t limit : {options.connect_timeout_ms, options.io_timeout_ms, options.write_behind_ms})
    if (limit > kMaxMilliseconds) return invalid("a time is longer than a year");
  return {};
}

}  // namespace

kintsugi_options default_options() {
  const client::FilesOptions files;
  const auto count = [](Duration duration) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
  };
  kintsugi_options options{};
  options.size = sizeof options;
  options.uid = options.gid = KINTSUGI_OWN_ID;
  options.umask = 022;
  options.max_outstanding = 1024;
  options.connect_timeout_ms = count(client::Options{}.retry_limit);
  options.io_timeout_ms = count(files.io_timeout);
  options.write_behind_ms = count(files.write_behind);
  options.dirty_bytes = files.dirty_bytes;
  options.memory_bytes = client::Options{}.memory_bytes;
  options.read_ahead_bytes = files.read_ahead_bytes;
  return options;
}

Result<ConnectionSettings> settings_of(const char* address, const char* secret_file,
                                       const kintsugi_options* given) {
  kintsugi_options options = default_options();
  if (given != nullptr) {
    if (given->size < kSmallestOptions) return invalid("the options were not initialised");
    // A program of an older version has fewer fields, for the others the defaults hold; one of a newer version has
    // more.
    std::memcpy(&options, given, std::min<size_t>(given->size, sizeof options));
    options.size = sizeof options;
  }
  KINTSUGI_TRY(check(options));
  ConnectionSettings settings;
  const std::string where = given_or_environment(address, "KINTSUGI_META");
  if (where.empty()) return invalid("no address of a metaserver is given");
  KINTSUGI_ASSIGN(settings.client.metaserver, runtime::Endpoint::parse(where));
  const std::string secret = given_or_environment(secret_file, "KINTSUGI_SECRET_FILE");
  // A secret that a program names is not the user's to replace.
  const std::string token = options.token_file != nullptr || secret_file == nullptr
                                ? given_or_environment(options.token_file, "KINTSUGI_TOKEN_FILE")
                                : "";
  if (secret.empty() && token.empty())
    return invalid("no file with the cluster's secret, or a token, is given");
  KINTSUGI_ASSIGN(settings.secret, rpc::load_credential(token, secret));
  KINTSUGI_ASSIGN(settings.tls, runtime::tls_policy(runtime::tls_files_of_environment(), false));
  KINTSUGI_ASSIGN(settings.caller, caller_of(options));
  settings.umask = options.umask;
  settings.max_outstanding = options.max_outstanding;
  settings.client.memory_bytes = options.memory_bytes;
  settings.client.retry_limit = milliseconds(options.connect_timeout_ms);
  settings.files.io_timeout = milliseconds(options.io_timeout_ms);
  settings.files.write_behind = milliseconds(options.write_behind_ms);
  settings.files.dirty_bytes = options.dirty_bytes;
  settings.files.read_ahead_bytes = options.read_ahead_bytes;
  return settings;
}

}  // namespace kintsugi::capi
