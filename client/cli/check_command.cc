// cluster check: what would keep the daemons of this host from working, before and after they are started.
#include <algorithm>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/host_daemons.h"
#include "client/cli/host_files.h"
#include "client/cli/json.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

struct CheckArguments {
  std::string directory = std::string(kHostDirectory);
};

void print_findings(const Session& session, const std::string& directory,
                    const std::vector<Finding>& findings) {
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
Status check(Session& session, const CheckArguments& arguments) {
  KINTSUGI_ASSIGN(const auto daemons, daemons_of_host(arguments.directory));
  const std::vector<Finding> findings = check_host(daemons, arguments.directory);
  print_findings(session, arguments.directory, findings);
  const auto problems = std::ranges::count(findings, Verdict::kProblem, &Finding::verdict);
  if (problems == 0) return {};
  return {Code::kInvalidArgument, fmt::format("{} would keep this host from working",
                                              counted(static_cast<uint64_t>(problems), "problem"))};
}

}  // namespace

Command check_command() {
  const auto a = std::make_shared<CheckArguments>();
  return {.name = "check",
          .help =
              "Say what would keep the daemons of this host from working; the exit code is 1 when something "
              "would",
          .options = {{"--etc", &a->directory, "Directory of their settings; default: /etc/kintsugi"}},
          .prints_json = true,
          .run = [a](Session& session) { return check(session, *a); }};
}

}  // namespace kintsugi::cli
