#include "client/cli/host_checks.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <set>

#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "client/cli/daemon_pages.h"
#include "client/cli/local_daemon.h"
#include "client/cli/metaserver_pages.h"
#include "client/lib/blocking_client.h"
#include "common/base/human_bytes.h"
#include "common/http/kept_connection.h"
#include "common/rpc/token.h"
#include "common/runtime/tls/tls_network.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLeastMemory = uint64_t{1} << 30;
constexpr rlim_t kWantedDescriptors = 65'536;
constexpr std::pair<int, int> kOldestKernel{5, 15};
constexpr double kLeastFree = 0.05;

/// Collects what is said of one thing.
class About {
 public:
  About(std::string on, std::vector<Finding>& findings) : on_(std::move(on)), findings_(findings) {}
  void good(std::string says) { add(Verdict::kGood, std::move(says)); }
  void warn(std::string says) { add(Verdict::kWarning, std::move(says)); }
  void bad(std::string says) { add(Verdict::kProblem, std::move(says)); }

 private:
  void add(Verdict verdict, std::string says) { findings_.push_back({verdict, on_, std::move(says)}); }
  const std::string on_;
  std::vector<Finding>& findings_;
};

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> look_up(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    return Status{Code::kNotFound, fmt::format("{} does not resolve: {}", host, ::gai_strerror(error))};
  return Addresses(found);
}

/// 0: nothing listens at the address, and it is this host's.
int error_of_listening(const addrinfo& at) {
  const int fd = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool done = ::bind(fd, at.ai_addr, at.ai_addrlen) == 0 && ::listen(fd, 1) == 0;
  const int error = done ? 0 : errno;
  ::close(fd);
  return error;
}

/// Whether a process of this program runs on this host.
bool runs(const std::string& program) {
  std::error_code ignored;
  const std::string name = fs::path(program).filename();
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto comm = read_file(entry.path().string() + "/comm");
    // The kernel keeps the first 15 bytes.
    if (comm && *comm == name.substr(0, 15) + "\n") return true;
  }
  return false;
}

void check_address(const CheckedDaemon& daemon, std::string_view key, ListenAddresses& taken, About& about) {
  const auto at = daemon.settings.address(key);
  if (!at) return;
  if (at->port == 0) {
    // On one host each daemon tells the metaserver which port it got; the metaserver can tell nobody.
    if (runtime::is_loopback(at->host) && daemon.settings.address("metaserver"))
      return about.good(fmt::format("{} {}: it picks a free port", key, at->to_string()));
    return about.bad(
        fmt::format("{}: {} is another port after each start: name one that others, and firewalls, can know",
                    key, at->to_string()));
  }
  if (const auto [other, is_new] = taken.emplace(at->to_string(), daemon.name); !is_new)
    return about.bad(fmt::format("{}: {} listens at {}, too", key, other->second, at->to_string()));
  const auto addresses = look_up(at->host, at->port);
  if (!addresses) return about.bad(fmt::format("{}: {}", key, addresses.error().message()));
  switch (const int error = error_of_listening(**addresses)) {
    case 0: return about.good(fmt::format("{} {} is free", key, at->to_string()));
    case EADDRNOTAVAIL: return about.bad(fmt::format("{}: {} is no address of this host", key, at->host));
    case EADDRINUSE:
      if (runs(daemon.program))
        return about.good(fmt::format("{} {} is in use: the daemon runs", key, at->to_string()));
      return about.bad(fmt::format("{}: port {} is taken by another program", key, at->port));
    default: return about.bad(fmt::format("{} {}: {}", key, at->to_string(), std::strerror(error)));
  }
}

/// The user that runs a daemon: nobody else can read its secret. None: there is no secret yet.
std::optional<uid_t> user_of(const DaemonSettings& settings) {
  struct stat info{};
  if (::stat(settings.text("secret_file").c_str(), &info) != 0) return std::nullopt;
  return info.st_uid;
}

std::string user_name(uid_t user) {
  const passwd* found = ::getpwuid(user);
  return found != nullptr ? found->pw_name : std::to_string(user);
}

void check_disk(const std::string& disk, std::optional<uid_t> user, std::set<dev_t>& devices, About& about) {
  struct stat info{}, root{};
  struct statvfs room{};
  if (::stat(disk.c_str(), &info) != 0)
    return about.bad(
        fmt::format("disk {}: {}: make the directory and mount the disk there", disk, std::strerror(errno)));
  if (!S_ISDIR(info.st_mode)) return about.bad(fmt::format("disk {} is no directory", disk));
  if (::statvfs(disk.c_str(), &room) != 0)
    return about.bad(fmt::format("disk {}: {}", disk, std::strerror(errno)));
  if ((room.f_flag & ST_RDONLY) != 0) return about.bad(fmt::format("disk {} is mounted read-only", disk));
  if (user && ::geteuid() == 0 && info.st_uid != *user)
    about.bad(fmt::format("disk {} belongs to another user than the daemon's secret: chown {} {}", disk,
                          user_name(*user), disk));
  else if (::geteuid() != 0 && ::access(disk.c_str(), R_OK | W_OK | X_OK) != 0)
    about.bad(fmt::format("disk {} cannot be written by this user", disk));
  if (::stat("/", &root) == 0 && root.st_dev == info.st_dev)
    about.warn(fmt::format("disk {} lies on the system's own file system: is the disk mounted there?", disk));
  else if (!devices.insert(info.st_dev).second)
    about.warn(fmt::format("disk {} is the same file system as another one: they fail together", disk));
  const auto all = static_cast<double>(room.f_blocks), free = static_cast<double>(room.f_bavail);
  const std::string bytes = human_bytes(uint64_t{room.f_bavail} * room.f_frsize);
  if (free < kLeastFree * all) return about.warn(fmt::format("disk {} is nearly full: {} free", disk, bytes));
  about.good(fmt::format("disk {}: {} free", disk, bytes));
}

std::string days(Duration time) {
  return fmt::format("{} days", time / std::chrono::hours(24));
}

/// The clock of whoever serves the page /debug/clock, less that of this host.
Result<double> clock_difference(runtime::ProductionRuntime& runtime, const runtime::Endpoint& pages) {
  const auto ask = [&]() -> asio::awaitable<Result<double>> {
    http::KeptConnection connection(runtime.runtime(), pages);
    const runtime::Clock& clock = runtime.runtime().clock;
    const WallTime asked = clock.wall_now();
    KINTSUGI_CO_ASSIGN(const std::string text,
                       co_await connection.get("/debug/clock", clock.now() + kAnswerLimit));
    const WallTime middle = asked + (clock.wall_now() - asked) / 2;
    int64_t theirs = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), theirs).ec != std::errc())
      co_return Status{Code::kCorrupt, pages.to_string() + " answers no time"};
    co_return to_seconds(Duration(theirs) - middle.time_since_epoch());
  };
  return runtime::run_on(runtime, ask());
}

}  // namespace

runtime::TlsFiles tls_files(const DaemonSettings& settings) {
  return {settings.text("tls.certificate"), settings.text("tls.key"), settings.text("tls.authority")};
}

Result<rpc::Secret> credential(const DaemonSettings& settings) {
  return rpc::load_credential(settings.text("token_file"), settings.text("secret_file"));
}

void check_machine(std::vector<Finding>& findings) {
  About about("this host", findings);
  utsname system{};
  ::uname(&system);
  std::pair<int, int> version{};
  if (std::sscanf(system.release, "%d.%d", &version.first, &version.second) == 2 && version < kOldestKernel)
    about.bad(fmt::format("kernel {} is too old: {}.{} is the oldest that is known to work", system.release,
                          kOldestKernel.first, kOldestKernel.second));
  else
    about.good(fmt::format("kernel {}", system.release));
  const auto disabled = read_file("/proc/sys/kernel/io_uring_disabled");
  if (disabled && *disabled != "0\n") about.bad("io_uring is off: sysctl kernel.io_uring_disabled=0");
  const uint64_t memory =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (memory < kLeastMemory)
    about.warn(
        fmt::format("{} of memory: a daemon wants {}", human_bytes(memory), human_bytes(kLeastMemory)));
  else
    about.good(fmt::format("{} of memory", human_bytes(memory)));
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  if (descriptors.rlim_max < kWantedDescriptors)
    about.warn(
        fmt::format("at most {} open files for what is started from here: the systemd units raise it to {}",
                    descriptors.rlim_max, kWantedDescriptors));
  else
    about.good(fmt::format("at most {} open files", descriptors.rlim_max));
  timex clock{};
  if (::adjtimex(&clock) == TIME_ERROR || (clock.status & STA_UNSYNC) != 0)
    about.warn("no service keeps the clock right: start chrony or systemd-timesyncd");
  else
    about.good("the clock is kept right");
}

void check_addresses(const CheckedDaemon& daemon, ListenAddresses& taken, std::vector<Finding>& findings) {
  About about(daemon.name, findings);
  check_address(daemon, "listen", taken, about);
  check_address(daemon, "http_listen", taken, about);
}

void check_names(const CheckedDaemon& daemon, std::vector<Finding>& findings) {
  About about(daemon.name, findings);
  const auto metaserver = daemon.settings.address("metaserver");
  if (metaserver && metaserver->port == 0)
    about.bad(fmt::format("metaserver: {}: nobody listens at port 0", metaserver->to_string()));
  const std::string advertise = daemon.settings.text("advertise");
  for (const auto& [key, host] :
       {std::pair("metaserver", metaserver ? metaserver->host : ""), std::pair("advertise", advertise)}) {
    if (host.empty()) continue;
    if (const auto found = look_up(host, 1); !found)
      about.bad(fmt::format("{}: {}", key, found.error().message()));
  }
}

void check_keys(const CheckedDaemon& daemon, std::vector<Finding>& findings) {
  About about(daemon.name, findings);
  const auto proof = credential(daemon.settings);
  if (!proof && proof.error().code() == Code::kNotFound && !daemon.settings.text("token_file").empty())
    about.bad(fmt::format(
        "{}: make one on the metaserver's host, kintsugi token create NAME --role write --out FILE, and copy "
        "it here",
        proof.error().message()));
  else if (!proof)
    about.bad(proof.error().message());
  const runtime::TlsFiles files = tls_files(daemon.settings);
  const auto listen = daemon.settings.address("listen");
  const bool inside = !listen || runtime::is_loopback(listen->host);
  if (files.none()) {
    if (inside) return;
    if (daemon.settings.text("tls.require") == "false")
      return about.warn("tls.require is false: anyone on the network can read and change the traffic");
    return about.bad("tls.certificate is not set, and without TLS the daemon refuses to listen at " +
                     listen->host);
  }
  const auto identity = runtime::TlsIdentity::load(files);
  if (!identity) return about.bad(identity.error().message());
  const WallTime now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  if (const std::string why = (*identity)->why_not_valid(now); !why.empty()) return about.bad(why);
  const std::string advertise = daemon.settings.text("advertise");
  const std::string called = !advertise.empty() ? advertise : listen ? listen->host : "";
  if (const std::string why = inside ? "" : (*identity)->why_not_for(called); !why.empty())
    return about.bad(why);
  const Duration left = std::min((*identity)->expires(), (*identity)->authority_expires()) - now;
  if (left < kRenewBefore)
    return about.warn(
        fmt::format("the certificate expires in {}: kintsugi cluster init --renew", days(left)));
  about.good(fmt::format("the certificate of {} is valid for {}", (*identity)->name(), days(left)));
}

void check_disks(const CheckedDaemon& daemon, std::vector<Finding>& findings) {
  About about(daemon.name, findings);
  std::set<dev_t> devices;
  for (const std::string& disk : daemon.settings.list("disks"))
    check_disk(disk, user_of(daemon.settings), devices, about);
  const std::string data = daemon.settings.text("data_dir");
  const std::string parent = fs::path(data).parent_path();
  if (data.empty()) return;
  std::error_code ignored;
  if (fs::exists(data, ignored)) {
    if (::access(data.c_str(), R_OK | W_OK | X_OK) != 0)
      return about.bad(fmt::format("data_dir {} cannot be written by this user", data));
    return about.good(fmt::format("data_dir {}", data));
  }
  if (!fs::exists(parent, ignored))
    return about.bad(fmt::format("data_dir {}: {} is not there", data, parent));
  if (::access(parent.c_str(), W_OK) != 0)
    about.warn(
        fmt::format("data_dir {} is not there, and this user cannot make it: the systemd unit does", data));
}

void check_metaserver(const CheckedDaemon& daemon, std::vector<Finding>& findings) {
  About about(daemon.name, findings);
  const auto at = daemon.settings.address("metaserver");
  const auto proof = credential(daemon.settings);
  auto tls = runtime::tls_policy(tls_files(daemon.settings), false);
  if (!at || !proof || !tls) return;  // that was said already
  client::Options options;
  options.metaserver = *at;
  options.retry_limit = Duration::zero();  // whether it answers now is what is asked
  client::BlockingClient client(std::move(options), *proof, std::move(*tls));
  const auto servers = client.run(client.async().list_servers());
  if (!servers && servers.error().code() == Code::kPermissionDenied)
    return about.bad("the metaserver refuses this host: " + servers.error().message());
  if (!servers)
    return about.warn(
        fmt::format("the metaserver does not answer, which is in order before it is started: {}",
                    servers.error().message()));
  about.good(fmt::format("the metaserver at {} answers", at->to_string()));
  const auto pages = metaserver_pages(servers->metaserver_pages(), *at);
  const auto difference = pages ? clock_difference(client.runtime(), *pages) : Result<double>(pages.error());
  if (!difference)
    return about.warn(fmt::format("the clock could not be compared with the metaserver's: {}",
                                  pages ? "no pages at " + pages->to_string() : pages.error().message()));
  const std::string says = fmt::format("the metaserver's clock is {:.1f} s {} this one",
                                       std::abs(*difference), *difference < 0 ? "behind" : "ahead of");
  if (std::abs(*difference) > kMostClockDifference) return about.bad(says);
  about.good(says);
}

}  // namespace kintsugi::cli
