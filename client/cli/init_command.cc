// cluster init: keys and settings for the hosts of a cluster, from a description of them.
#include <algorithm>
#include <filesystem>

#include "client/cli/commands.h"
#include "client/cli/fitting_policy.h"
#include "client/cli/format.h"
#include "client/cli/host_files.h"
#include "client/cli/json.h"
#include "client/cli/local_daemon.h"
#include "client/cli/session.h"
#include "common/rpc/secret.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kDay = std::chrono::hours(24);
/// An authority outlives disks; certificates of hosts are renewed each year, with a month to do that in.
constexpr auto kAuthorityLasts = 10 * 365 * kDay;
constexpr auto kHostLasts = 397 * kDay;
/// The clocks of hosts differ.
constexpr auto kValidBefore = std::chrono::hours(1);

struct InitArguments {
  std::string hosts, out;
  bool add = false, renew = false;
  std::string revoke;  ///< a host; empty: none is revoked

  bool makes_cluster() const { return !add && !renew && revoke.empty(); }
};

/// The directory of a cluster's keys: what all hosts share, and a directory for each host.
class KeyDirectory {
 public:
  explicit KeyDirectory(std::string path) : path_(std::move(path)) {}

  bool is_new() const {
    std::error_code none;
    return !fs::exists(path_, none) || fs::is_empty(path_, none);
  }
  /// Makes the authority and the secret.
  Status make(const std::string& cluster);
  Status open();

  bool has(const HostDescription& host) const {
    std::error_code none;
    return fs::exists(of(host.name), none);
  }
  /// All files of a host. Its directory is there with all of them or not at all.
  Status add(const HostsFile& hosts, const HostDescription& host) const;
  /// A new certificate with a new key.
  Status renew(const HostDescription& host) const;
  /// Has all others refuse the certificate of this host, and removes its files.
  Status revoke(const std::string& host);
  /// What make() and add() made, and the directory if it is empty then.
  void remove() const {
    std::error_code ignored;
    for (const char* each : {"authority.key", "authority.crt", "secret", "hosts"})
      fs::remove_all(path_ + "/" + each, ignored);
    if (fs::is_directory(path_, ignored)) fs::remove(path_, ignored);
  }

 private:
  std::string of(std::string_view host) const { return fmt::format("{}/hosts/{}", path_, host); }
  Result<std::vector<HostFile>> new_keys(const HostDescription& host) const;
  static Status write(const std::string& directory, const std::vector<HostFile>& files);
  /// Reads what hosts are to believe: the authority, and what it has revoked.
  Status read_belief();

  const std::string path_;
  std::optional<runtime::CertificateAuthority> authority_;
  std::string secret_, belief_;
};

WallTime now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

Status make_private(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error) fs::permissions(directory, fs::perms::owner_all, error);
  return error ? status_from_errno(error.value(), directory) : Status{};
}

Status KeyDirectory::make(const std::string& cluster) {
  KINTSUGI_TRY(make_private(path_));
  KINTSUGI_ASSIGN(auto authority, runtime::CertificateAuthority::make(cluster, now() - kValidBefore,
                                                                      now() + kAuthorityLasts));
  KINTSUGI_TRY(write_file(path_ + "/authority.key", authority.own().key, 0600));
  KINTSUGI_TRY(write_file(path_ + "/authority.crt", authority.own().certificate));
  const auto secret = rpc::Secret::create(path_ + "/secret");
  if (!secret) return secret.error();
  return open();
}

Status KeyDirectory::open() {
  for (const char* file : {"/authority.key", "/authority.crt", "/secret"})
    if (!fs::exists(path_ + file))
      return {Code::kNotFound,
              fmt::format("{} has no {}: it is not what `kintsugi cluster init` made", path_, file + 1)};
  runtime::CertifiedKey own;
  KINTSUGI_ASSIGN(own.key, read_file(path_ + "/authority.key"));
  KINTSUGI_ASSIGN(own.certificate, read_file(path_ + "/authority.crt"));
  KINTSUGI_ASSIGN(secret_, read_file(path_ + "/secret"));
  auto loaded = runtime::CertificateAuthority::load(own);
  if (!loaded) return loaded.error().with_context(path_);
  authority_.emplace(std::move(*loaded));
  KINTSUGI_TRY(make_private(path_ + "/hosts"));
  return read_belief();
}

Status KeyDirectory::read_belief() {
  belief_ = authority_->own().certificate;
  std::vector<std::string> revoked;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(path_ + "/revoked", none)) {
    KINTSUGI_ASSIGN(std::string certificate, read_file(entry.path()));
    revoked.push_back(std::move(certificate));
  }
  if (revoked.empty()) return {};
  KINTSUGI_ASSIGN(const std::string list, authority_->revoke(revoked, now() - kValidBefore));
  belief_ += list;
  return {};
}

Status KeyDirectory::revoke(const std::string& host) {
  std::error_code error;
  if (!check_host_name(host).ok() || !fs::exists(of(host), error))
    return {Code::kNotFound, fmt::format("{} has no files of a host {}", path_, host)};
  KINTSUGI_TRY(make_private(path_ + "/revoked"));
  KINTSUGI_ASSIGN(const std::string certificate, read_file(fmt::format("{}/{}", of(host), kHostCertificate)));
  // A host may be revoked several times, with a certificate of its own each time.
  const std::string kept = fmt::format("{}/revoked/{}-{}.crt", path_, host, now().time_since_epoch().count());
  KINTSUGI_TRY(write_file(kept, certificate));
  KINTSUGI_TRY(read_belief());
  for (const auto& other : fs::directory_iterator(path_ + "/hosts", error)) {
    const std::string name = other.path().filename();
    if (name == host || !check_host_name(name).ok()) continue;
    KINTSUGI_TRY(write_file(other.path().string() + "/" + std::string(kHostAuthority), belief_));
  }
  // Last: until then the same command can be given again.
  if (!error) fs::remove_all(of(host), error);
  return error ? status_from_errno(error.value(), path_) : Status{};
}

Result<std::vector<HostFile>> KeyDirectory::new_keys(const HostDescription& host) const {
  KINTSUGI_ASSIGN(const runtime::CertifiedKey issued, authority_->issue({.name = host.name,
                                                                         .hosts = certified_hosts(host),
                                                                         .valid_from = now() - kValidBefore,
                                                                         .valid_until = now() + kHostLasts}));
  return keys_of_host(issued, belief_);
}

Status KeyDirectory::write(const std::string& directory, const std::vector<HostFile>& files) {
  KINTSUGI_TRY(make_private(directory + "/tls"));
  KINTSUGI_TRY(make_private(directory));
  for (const HostFile& file : files)
    KINTSUGI_TRY(write_file(directory + "/" + file.name, file.text, file.mode));
  return {};
}

Status KeyDirectory::add(const HostsFile& hosts, const HostDescription& host) const {
  const std::string unfinished = of(host.name + "~");  // no host is called so
  std::error_code error;
  fs::remove_all(unfinished, error);
  KINTSUGI_ASSIGN(const std::vector<HostFile> keys, new_keys(host));
  KINTSUGI_TRY(write(unfinished, keys));
  KINTSUGI_TRY(write(unfinished, settings_of_host(hosts, host)));
  if (host.serves()) KINTSUGI_TRY(write(unfinished, {{std::string(kHostSecret), secret_, 0600}}));
  fs::rename(unfinished, of(host.name), error);
  return error ? status_from_errno(error.value(), of(host.name)) : Status{};
}

Status KeyDirectory::renew(const HostDescription& host) const {
  KINTSUGI_ASSIGN(const std::vector<HostFile> keys, new_keys(host));
  return write(of(host.name), keys);
}

/// Those whose files this invocation makes.
std::vector<const HostDescription*> chosen(const HostsFile& hosts, const KeyDirectory& keys, bool renew) {
  std::vector<const HostDescription*> all;
  for (const HostDescription& host : hosts.hosts)
    if (keys.has(host) == renew) all.push_back(&host);
  return all;
}

Status write_hosts(const HostsFile& hosts, KeyDirectory& keys, const InitArguments& arguments,
                   std::vector<const HostDescription*>& made) {
  KINTSUGI_TRY(arguments.makes_cluster() ? keys.make(hosts.cluster) : keys.open());
  made = chosen(hosts, keys, arguments.renew);
  for (const HostDescription* host : made)
    KINTSUGI_TRY(arguments.renew ? keys.renew(*host) : keys.add(hosts, *host));
  return {};
}

Status revoke(Session& session, KeyDirectory& keys, const InitArguments& arguments) {
  KINTSUGI_TRY(keys.open());
  KINTSUGI_TRY(keys.revoke(arguments.revoke));
  if (session.json)
    print_json({{"out", arguments.out}, {"revoked", arguments.revoke}});
  else
    fmt::print(
        "{} is revoked: copy {}/hosts/NAME/{} to {} of each host; it counts for new connections within "
        "seconds.\n",
        arguments.revoke, arguments.out, kHostAuthority, kHostDirectory);
  return {};
}

void report(const Session& session, const InitArguments& arguments, const HostsFile& hosts,
            const std::vector<const HostDescription*>& made) {
  if (session.json) {
    Json names = Json::array();
    for (const HostDescription* host : made)
      names.push_back(host->name);
    return print_json({{"out", arguments.out}, {"policy", hosts.policy}, {"hosts", std::move(names)}});
  }
  if (made.empty()) return fmt::print("Nothing to do: {} has the files of all hosts.\n", arguments.out);
  if (arguments.makes_cluster())
    fmt::print(
        "{0} has the cluster's authority and secret now. Keep a copy of it: authority.key signs new hosts, "
        "and anyone who has it or the secret can pretend to be one.\n",
        arguments.out);
  fmt::print("{} of {}: copy {}/hosts/NAME{} to {} of each host{}.\n",
             arguments.renew ? "New certificates" : "The files", counted(made.size(), "host"), arguments.out,
             arguments.renew ? "/tls" : "", kHostDirectory,
             arguments.renew ? "; its daemons take them within seconds"
                             : ", then run `kintsugi cluster check` there");
  for (const HostDescription* host : made)
    if (!host->serves() && !arguments.renew)
      fmt::print(
          "{0} has no daemons, and gets no secret: make it a token on the metaserver's host, `kintsugi token "
          "create {0} --role write --out {0}.token`, and copy that to {1}/{2} there.\n",
          host->name, kHostDirectory, kHostToken);
  const size_t stores = hosts.count(HostRole::kChunkserver);
  if (servers_for(hosts.policy) > stores)
    fmt::print("Files with the policy {} need {} chunkservers, and there {} {}.\n", hosts.policy,
               servers_for(hosts.policy), stores == 1 ? "is" : "are", stores);
}

Status init(Session& session, const InitArguments& arguments) {
  KINTSUGI_ASSIGN(HostsFile hosts, HostsFile::read(arguments.hosts));
  if (hosts.policy.empty()) {
    KINTSUGI_ASSIGN(hosts.policy, fitting_policy(hosts.count(HostRole::kChunkserver)));
  }
  KeyDirectory keys(arguments.out);
  if (!arguments.revoke.empty()) return revoke(session, keys, arguments);
  const bool fresh = arguments.makes_cluster();
  if (fresh && !keys.is_new())
    return {
        Code::kAlreadyExists,
        fmt::format("{} is not empty: --add makes the files of hosts that are new in {}, --renew makes new "
                    "certificates; another cluster needs another --out",
                    arguments.out, arguments.hosts)};
  std::vector<const HostDescription*> made;
  const Status written = write_hosts(hosts, keys, arguments, made);
  if (!written.ok()) {
    if (fresh) keys.remove();
    return written;
  }
  report(session, arguments, hosts, made);
  return {};
}

}  // namespace

Command init_command() {
  const auto a = std::make_shared<InitArguments>();
  return {
      .name = "init",
      .help = "Make keys and settings for the hosts of a cluster",
      .options = {{"HOSTS", &a->hosts, "File that describes the hosts, as TOML", kRequired},
                  {"--out", &a->out, "Directory for what is made, one directory for each host", kRequired},
                  {"--add", &a->add, "Make the files of hosts that are new, with the same authority"},
                  {.names = "--renew",
                   .target = &a->renew,
                   .help = "Make new certificates for the hosts that have some",
                   .excludes = "--add"},
                  {"--revoke", &a->revoke,
                   "Have all others refuse this host's certificate, and forget the host"}},
      .prints_json = true,
      .run = [a](Session& session) { return init(session, *a); }};
}

}  // namespace kintsugi::cli
