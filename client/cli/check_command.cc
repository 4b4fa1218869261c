// cluster check: what would keep the daemons of this host from working, before and after they are started.
#include <algorithm>
#include <filesystem>
#include <map>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/host_checks.h"
#include "client/cli/host_files.h"
#include "client/cli/json.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string directory = std::string(kHostDirectory);
};

/// Programs beside this one that read files whose names begin so.
constexpr std::string_view kDaemons[] = {"metaserver", "chunkserver", "repair-manager", "monitor"};

std::string program_of(std::string_view daemon) {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path() / fmt::format("kintsugi-{}", daemon);
}

/// The files of settings in the directory, with the daemon that reads each.
Result<std::vector<std::pair<fs::path, std::string_view>>> files_in(const std::string& directory) {
  std::vector<std::pair<fs::path, std::string_view>> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".toml")) continue;
    const auto daemon =
        std::ranges::find_if(kDaemons, [&](std::string_view each) { return name.starts_with(each); });
    if (daemon != std::end(kDaemons)) files.emplace_back(entry.path(), *daemon);
  }
  if (error) return status_from_errno(error.value(), directory);
  std::ranges::sort(files);
  return files;
}

void check(const CheckedDaemon& daemon, ListenAddresses& taken, std::vector<Finding>& findings) {
  check_addresses(daemon, taken, findings);
  check_names(daemon, findings);
  check_keys(daemon, findings);
  check_disks(daemon, findings);
  check_metaserver(daemon, findings);
}

std::string_view word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood: return "ok";
    case Verdict::kWarning: return "warning";
    case Verdict::kProblem: return "problem";
  }
  return "";
}

void print(const Session& session, const std::string& directory, const std::vector<Finding>& findings) {
  if (!session.json) {
    for (const Finding& finding : findings)
      fmt::print("{:<8} {:<16} {}\n", word(finding.verdict), finding.on, finding.says);
    return;
  }
  Json all = Json::array();
  for (const Finding& finding : findings)
    all.push_back({{"verdict", word(finding.verdict)}, {"on", finding.on}, {"says", finding.says}});
  print_json({{"dir", directory}, {"findings", std::move(all)}});
}

/// Fails when there is a problem, after it printed everything.
Status check_host(Session& session, const Arguments& arguments) {
  KINTSUGI_ASSIGN(const auto files, files_in(arguments.directory));
  std::vector<Finding> findings;
  check_machine(findings);
  ListenAddresses taken;
  for (const auto& [file, daemon] : files) {
    const std::string name = file.stem(), program = program_of(daemon);
    auto settings = DaemonSettings::ask(program, file);
    if (settings)
      check({name, program, std::move(*settings)}, taken, findings);
    else
      findings.push_back({Verdict::kProblem, name, settings.error().message()});
  }
  if (files.empty())
    findings.push_back(
        {Verdict::kWarning, "this host",
         fmt::format("{} has no settings of a daemon: this is a client", arguments.directory)});
  print(session, arguments.directory, findings);
  const auto problems = std::ranges::count(findings, Verdict::kProblem, &Finding::verdict);
  if (problems == 0) return {};
  return {Code::kInvalidArgument, fmt::format("{} would keep this host from working",
                                              counted(static_cast<uint64_t>(problems), "problem"))};
}

}  // namespace

Command check_command() {
  const auto a = std::make_shared<Arguments>();
  return {.name = "check",
          .help =
              "Say what would keep the daemons of this host from working; the exit code is 1 when something "
              "would",
          .options = {{"--etc", &a->directory, "Directory of their settings; default: /etc/kintsugi"}},
          .prints_json = true,
          .run = [a](Session& session) { return check_host(session, *a); }};
}

}  // namespace kintsugi::cli
