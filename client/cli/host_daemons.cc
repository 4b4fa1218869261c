#include "client/cli/host_daemons.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <set>

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

/// Programs beside this one that read files whose names begin so.
constexpr std::string_view kDaemons[] = {"metaserver", "chunkserver", "repair-manager", "monitor"};

std::string program_of(std::string_view daemon) {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path() / fmt::format("kintsugi-{}", daemon);
}

/// How a daemon reaches the metaserver: two that do it in one way get one answer.
std::string way_to_metaserver(const DaemonSettings& settings) {
  return fmt::format("{} {} {} {}", settings.text("metaserver"), settings.text("secret_file"),
                     settings.text("token_file"), settings.text("tls.certificate"));
}

}  // namespace

Result<std::vector<HostDaemon>> daemons_of_host(const std::string& directory) {
  std::vector<HostDaemon> daemons;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() != ".toml") continue;
    const auto daemon =
        std::ranges::find_if(kDaemons, [&](std::string_view each) { return name.starts_with(each); });
    if (daemon == std::end(kDaemons)) continue;
    const std::string program = program_of(*daemon);
    daemons.push_back({name, program, DaemonSettings::ask(program, entry.path())});
  }
  if (error) return status_from_errno(error.value(), directory);
  const std::string mount = program_of("mount"), settings = directory + "/mount.toml";
  if (daemons.empty() && fs::exists(settings, error) && fs::exists(mount, error))
    daemons.push_back({"mount", mount, DaemonSettings::ask(mount, settings)});
  std::ranges::sort(daemons, {}, &HostDaemon::name);
  return daemons;
}

std::vector<Finding> check_host(const std::vector<HostDaemon>& daemons, const std::string& directory) {
  std::vector<Finding> findings;
  check_machine(findings);
  ListenAddresses taken;
  std::set<std::string> asked;
  // What each daemon has in order, and what the metaserver says to it. All ask at once: none waits for another's answer.
  std::vector<std::vector<Finding>> own(daemons.size());
  std::vector<std::future<std::vector<Finding>>> answers(daemons.size());
  for (size_t i = 0; i < daemons.size(); ++i) {
    const HostDaemon& daemon = daemons[i];
    if (!daemon.settings) {
      own[i].push_back({Verdict::kProblem, daemon.name, daemon.settings.error().message()});
      continue;
    }
    const CheckedDaemon checked{daemon.name, daemon.program, *daemon.settings};
    if (asked.insert(way_to_metaserver(checked.settings)).second)
      answers[i] = std::async(std::launch::async, [checked] {
        std::vector<Finding> said;
        check_metaserver(checked, said);
        return said;
      });
    check_addresses(checked, taken, own[i]);
    check_names(checked, own[i]);
    check_keys(checked, own[i]);
    check_disks(checked, own[i]);
  }
  for (size_t i = 0; i < daemons.size(); ++i) {
    std::ranges::move(own[i], std::back_inserter(findings));
    if (answers[i].valid()) std::ranges::move(answers[i].get(), std::back_inserter(findings));
  }
  if (daemons.empty())
    findings.push_back(
        {Verdict::kWarning, "this host",
         fmt::format(
             "{} has no settings of a daemon or of a mount that is installed: only the machine was checked",
             directory)});
  return findings;
}

std::string_view word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood: return "ok";
    case Verdict::kWarning: return "warning";
    case Verdict::kProblem: return "problem";
  }
  return "";
}

}  // namespace kintsugi::cli
