// doctor: what support needs of this host and of its cluster in one file, and what is wrong, one line each.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/archive.h"
#include "client/cli/cluster_findings.h"
#include "client/cli/commands.h"
#include "client/cli/daemon_pages.h"
#include "client/cli/format.h"
#include "client/cli/host_daemons.h"
#include "client/cli/host_files.h"
#include "client/cli/local_daemon.h"
#include "client/cli/metaserver_pages.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "common/proto/verdicts.h"
#include "common/rpc/token.h"
#include "common/runtime/production/activity_file.h"

namespace kintsugi::cli {
namespace {

/// So much of the end of a log, or of another text, goes into the file.
constexpr size_t kMostOfLog = 256 << 10, kMostOfText = 4 << 20;
constexpr size_t kMostFileName = 60;
/// These files say what kernel and system this host has.
constexpr const char* kFacts[] = {"/etc/os-release",       "/etc/debian_version",
                                  "/proc/version",         "/proc/uptime",
                                  "/proc/loadavg",         "/proc/meminfo",
                                  "/proc/mounts",          "/proc/diskstats",
                                  "/proc/partitions",      "/proc/net/dev",
                                  "/proc/net/snmp",        "/proc/net/netstat",
                                  "/proc/pressure/cpu",    "/proc/pressure/io",
                                  "/proc/pressure/memory", "/proc/sys/kernel/io_uring_disabled",
                                  "/proc/sys/fs/file-nr"};
/// What others know of this host. Where one is not installed, its answer says so; one that hangs, as df does where a mount
/// hangs, is ended.
constexpr std::pair<const char*, const char*> kPrograms[] = {
    {"host/df", "timeout -k1 9 df -kT 2>&1; timeout -k1 9 df -i 2>&1"},
    {"host/disks", "timeout -k1 9 lsblk -o NAME,ROTA,SIZE,TYPE,MODEL,FSTYPE,MOUNTPOINT 2>&1"},
    {"host/addresses", "timeout -k1 9 ip -brief address 2>&1; timeout -k1 9 ip route 2>&1"},
    {"host/clock", "timeout -k1 9 timedatectl 2>&1"},
    {"host/kernel", "uname -a 2>&1; timeout -k1 9 dmesg --level=err,warn 2>&1 | tail -n 200"},
    {"host/packages", "timeout -k1 9 dpkg-query -W 'kintsugi*' 'libkintsugi*' 'python3-kintsugi' 2>&1"}};

struct DoctorArguments {
  std::string directory = std::string(kHostDirectory), out;
};

/// All that is collected, and what is wrong with it.
struct Report {
  Archive archive;
  Redaction redaction{};
  std::vector<Finding> findings{};
  /// Address of the metaserver's pages, as it says; empty: it has not said it.
  std::string metaserver_pages{};

  Status add(const std::string& name, std::string text) {
    text.resize(std::min(text.size(), kMostOfText));
    return archive.add(name, redaction.without_secrets(std::move(text)));
  }
};

std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return "";
  std::string output;
  std::array<char, 4096> piece;
  for (size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    if (output.size() < kMostOfText) output.append(piece.data(), got);
  ::pclose(pipe);
  return output;
}

/// The last lines of a file, whole ones; empty: it cannot be read. A link could lead to what is not the daemon's, and what is no
/// regular file could keep its reader for ever.
std::string end_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text;
  struct stat info{};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    const off_t begin = std::max<off_t>(0, info.st_size - off_t{kMostOfLog});
    text.resize(static_cast<size_t>(info.st_size - begin));
    const ssize_t got = ::pread(fd, text.data(), text.size(), begin);
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
    if (begin > 0) text.erase(0, text.find('\n') + 1);
  }
  ::close(fd);
  return text;
}

/// A name of a daemon as a name of a file.
std::string file_name(std::string_view text) {
  std::string name(text.substr(0, kMostFileName - 1));
  const std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@#";
  for (char& c : name)
    if (allowed.find(c) == std::string_view::npos) c = '_';
  return name.starts_with('.') ? "_" + name : name;
}

/// Has the redaction take out the secrets and keys of this host, wherever they stand.
void learn_secrets(const std::vector<HostDaemon>& daemons, Redaction& redaction) {
  std::vector<std::string> files;
  if (const char* file = std::getenv(kSecretVariable)) files.emplace_back(file);
  for (const HostDaemon& daemon : daemons)
    if (daemon.settings)
      for (const char* key : {"secret_file", "token_file", "tls.key"})
        files.push_back(daemon.settings->text(key));
  if (const char* file = std::getenv(kTokenVariable)) files.emplace_back(file);
  for (const std::string& file : files) {
    if (std::error_code none; !std::filesystem::is_regular_file(file, none)) continue;
    const auto text = read_file(file);
    if (!text) continue;
    // Each line by itself: what quotes a key quotes a line of it.
    for (size_t begin = 0; begin < text->size();) {
      const size_t end = std::min(text->find('\n', begin), text->size());
      redaction.learn(text->substr(begin, end - begin));
      begin = end + 1;
    }
  }
}

Status add_host(const std::vector<HostDaemon>& daemons, Report& report) {
  for (const char* path : kFacts) {
    // Files of /proc have no size before they are read.
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!text.empty()) KINTSUGI_TRY(report.add("host" + std::string(path), std::move(text)));
  }
  for (const auto& [name, command] : kPrograms)
    KINTSUGI_TRY(report.add(name, output_of(command)));
  for (const HostDaemon& daemon : daemons) {
    const std::string name = file_name(daemon.name);
    KINTSUGI_TRY(report.add("etc/" + name + ".toml", daemon.settings ? daemon.settings->effective()
                                                                     : daemon.settings.error().message()));
    const std::string log = daemon.settings ? daemon.settings->text("log_file") : "";
    if (log.empty()) {
      const std::string unit = name.starts_with("chunkserver-") ? "chunkserver@" + name.substr(12) : name;
      KINTSUGI_TRY(report.add(
          "logs/" + name + ".log",
          output_of("timeout -k1 9 journalctl --no-pager -n 1000 -u 'kintsugi-" + unit + "' 2>/dev/null")));
      continue;
    }
    KINTSUGI_TRY(report.add("logs/" + name + ".log", end_of(log)));
    KINTSUGI_TRY(report.add("logs/" + name + ".activity.log", end_of(runtime::activity_path(log))));
  }
  return {};
}

/// How the cluster is reached: as the environment says, or else as a daemon of this host does.
struct Way {
  runtime::Endpoint metaserver;
  /// Address of the metaserver's pages by its settings; none: it has not its settings here.
  std::optional<runtime::Endpoint> pages;
  CredentialFiles credential;
  runtime::TlsFiles tls;
};

std::optional<Way> way_to_cluster(const std::vector<HostDaemon>& daemons) {
  std::optional<Way> way;
  const char* metaserver = std::getenv(kMetaVariable);
  const CredentialFiles given = CredentialFiles::of_environment();
  if (metaserver != nullptr && (!given.secret.empty() || !given.token.empty()))
    if (const auto at = runtime::Endpoint::parse(metaserver))
      way = Way{*at, std::nullopt, given, runtime::tls_files_of_environment()};
  for (const HostDaemon& daemon : daemons) {
    if (!daemon.settings) continue;
    const DaemonSettings& settings = *daemon.settings;
    const bool is_metaserver = daemon.name == "metaserver";
    const auto at = settings.address(is_metaserver ? "listen" : "metaserver");
    if (!at) continue;
    if (!way)
      way = Way{*at,
                std::nullopt,
                {settings.text("secret_file"), settings.text("token_file")},
                tls_files(settings)};
    const auto pages = settings.address("http_listen");
    if (is_metaserver && pages && at->to_string() == way->metaserver.to_string()) way->pages = *pages;
  }
  return way;
}

/// Daemons that the metaserver knows, and those of this host that it does not name.
std::vector<DaemonPages> pages_of_all(runtime::ProductionRuntime& runtime, const Way& way,
                                      const std::vector<HostDaemon>& local, Report& report) {
  std::vector<DaemonPages> daemons;
  const auto pages = way.pages ? Result<runtime::Endpoint>(*way.pages)
                               : metaserver_pages(report.metaserver_pages, way.metaserver);
  if (!pages)
    report.findings.push_back({Verdict::kWarning, "metaserver", pages.error().message()});
  else if (auto found = find_daemons(runtime, *pages))
    daemons = std::move(*found);
  else
    report.findings.push_back({Verdict::kProblem, "metaserver",
                               fmt::format("its pages at {} do not say which daemons there are: {}",
                                           pages->to_string(), found.error().message())});
  for (const HostDaemon& daemon : local) {
    const auto at = daemon.settings ? daemon.settings->address("http_listen") : std::nullopt;
    if (!at || at->port == 0) continue;
    const bool known = std::ranges::count(daemons, at->to_string(), &DaemonPages::address) > 0;
    if (!known)
      daemons.push_back({.daemon = daemon.name, .instance = daemon.name, .address = at->to_string()});
  }
  for (DaemonPages& daemon : daemons)
    read_pages(runtime, daemon);
  return daemons;
}

Status add_pages(const std::vector<DaemonPages>& daemons, Report& report) {
  for (const DaemonPages& daemon : daemons)
    for (const auto& [path, page] : daemon.pages) {
      std::string name = path.substr(1);
      std::ranges::replace(name, '/', '-');
      KINTSUGI_TRY(report.add("daemons/" + file_name(daemon.instance) + "/" + name, page));
    }
  return {};
}

Status add_answers(client::BlockingClient& client, Report& report) {
  const auto servers = client.run(client.async().list_servers());
  if (!servers) {
    report.findings.push_back(
        {Verdict::kProblem, "the cluster", "the metaserver does not answer: " + servers.error().message()});
  } else {
    report.metaserver_pages = servers->metaserver_pages();
    judge_servers(*servers, report.findings);
    Json all = Json::array();
    for (const proto::ServerState& server : by_number(*servers))
      all.push_back(to_json(server));
    KINTSUGI_TRY(report.add("cluster/servers.json", Json{{"servers", std::move(all)}}.pretty()));
  }
  proto::DiagnoseRequest request;
  request.set_history(true);
  const auto alarms = client.run(client.async().diagnose(std::move(request)));
  if (!alarms) return {};
  judge_alarms(*alarms, report.findings);
  return report.add("cluster/alarms.json", proto::to_json(*alarms));
}

Status add_cluster(const std::vector<HostDaemon>& daemons, Report& report) {
  const auto way = way_to_cluster(daemons);
  const auto proof = way ? rpc::load_credential(way->credential.token, way->credential.secret)
                         : Result<rpc::Secret>(Status{Code::kNotFound, ""});
  auto tls = runtime::tls_policy(way ? way->tls : runtime::TlsFiles{}, false);
  if (!way || !proof || !tls) {
    report.findings.push_back({Verdict::kWarning, "the cluster",
                               !way ? fmt::format("nothing says where it is: set {}", kMetaVariable)
                                    : (!proof ? proof.error() : tls.error()).message()});
    return {};
  }
  client::Options options;
  options.metaserver = way->metaserver;
  options.retry_limit = kAnswerLimit;
  client::BlockingClient client(std::move(options), *proof, std::move(*tls));
  KINTSUGI_TRY(add_answers(client, report));
  const std::vector<DaemonPages> pages = pages_of_all(client.runtime(), *way, daemons, report);
  judge_daemons(pages, report.findings);
  return add_pages(pages, report);
}

std::string line_of(const Finding& finding) {
  return fmt::format("{:<8} {:<16} {}", word(finding.verdict), finding.on, shown_message(finding.says));
}

void print_report(const Session& session, const std::string& out, const std::vector<Finding>& findings) {
  if (!session.json) {
    for (const Finding& finding : findings)
      if (finding.verdict != Verdict::kGood) fmt::print("{}\n", line_of(finding));
    fmt::print(
        "{} has what helps others to find out why. Names of files may be in it: look before you send it.\n",
        out);
    return;
  }
  Json all = Json::array();
  for (const Finding& finding : findings)
    all.push_back({{"verdict", word(finding.verdict)}, {"on", finding.on}, {"says", finding.says}});
  print_json({{"out", out}, {"findings", std::move(all)}});
}

/// Fails when there is a problem, after it printed everything.
Status examine(Session& session, const DoctorArguments& arguments) {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  std::string time = local_time(std::time(nullptr) * 1'000'000'000);
  std::ranges::replace(time, ' ', 'T');
  std::erase_if(time, [](char c) { return c == ':' || c == '-'; });
  const std::string root = fmt::format("kintsugi-doctor-{}-{}", file_name(host.data()).substr(0, 20), time);
  const std::string out = arguments.out.empty() ? root + ".tar.gz" : arguments.out;
  auto found = daemons_of_host(arguments.directory);
  const std::vector<HostDaemon> daemons = found ? std::move(*found) : std::vector<HostDaemon>{};
  KINTSUGI_ASSIGN(Archive archive, Archive::create(out, "kintsugi-doctor"));
  Report report{.archive = std::move(archive)};
  learn_secrets(daemons, report.redaction);
  report.findings = check_host(daemons, arguments.directory);
  KINTSUGI_TRY(add_host(daemons, report));
  KINTSUGI_TRY(add_cluster(daemons, report));
  std::string lines;
  for (const Finding& finding : report.findings)
    lines += line_of(finding) + "\n";
  KINTSUGI_TRY(report.add("findings", std::move(lines)));
  KINTSUGI_TRY(report.archive.finish());
  print_report(session, out, report.findings);
  const auto problems = std::ranges::count(report.findings, Verdict::kProblem, &Finding::verdict);
  if (problems == 0) return {};
  return {Code::kUnavailable, fmt::format("{} found", counted(static_cast<uint64_t>(problems), "problem"))};
}

}  // namespace

Command doctor_command() {
  const auto a = std::make_shared<DoctorArguments>();
  return {
      .name = "doctor",
      .help = "Say what is wrong with this host and its cluster, and write what support needs into one file",
      .options = {{"--out", &a->out, "The file, .tar.gz; default: kintsugi-doctor-HOST-TIME.tar.gz"},
                  {"--etc", &a->directory, "Directory of the daemons' settings; default: /etc/kintsugi"}},
      .prints_json = true,
      .run = [a](Session& session) { return examine(session, *a); }};
}

}  // namespace kintsugi::cli
