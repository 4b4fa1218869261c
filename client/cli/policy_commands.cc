// policy list, get, set.
#include <algorithm>
#include <cstdio>

#include "client/cli/commands.h"
#include "client/cli/fitting_policy.h"
#include "client/cli/json.h"
#include "client/cli/paths.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "erasure/policy.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

struct PolicyArguments {
  std::string path, policy;
};

/// Chunkservers that may get chunks; those that are only suspect may be back at once.
uint32_t usable_servers(const proto::ListServersResponse& answer) {
  return static_cast<uint32_t>(std::ranges::count_if(answer.servers(), [](const proto::ServerState& server) {
    return server.liveness() != proto::ServerState::DEAD && !server.draining();
  }));
}

Result<uint32_t> count_servers(BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::ListServersResponse answer, client.run(client.async().list_servers()));
  return usable_servers(answer);
}

Status list_policies(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::ListPoliciesResponse answer, client.run(client.async().list_policies()));
  KINTSUGI_ASSIGN(const uint32_t there, count_servers(client));
  Json names = Json::array(), servers = Json::array();
  for (const std::string& name : answer.policies()) {
    const uint32_t needed = servers_for(name);
    names.push_back(name);
    servers.push_back({{"policy", name}, {"servers_needed", needed}, {"fits", needed <= there}});
    if (session.json) continue;
    fmt::print("{:<20} needs {:>2} servers{}{}\n", name, needed,
               needed <= there ? "" : fmt::format(", {} are there: too few", there),
               name == answer.default_policy() ? "  (default)" : "");
  }
  if (session.json) {
    print_json({{"policies", std::move(names)},
                {"default_policy", answer.default_policy()},
                {"servers", there},
                {"needs", std::move(servers)}});
  }
  return {};
}

Status get_policy(Session& session, BlockingClient& client, const PolicyArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  KINTSUGI_ASSIGN(const proto::GetPolicyResponse answer,
                  client.run(client.async().get_policy(arguments.path)));
  if (session.json) {
    print_json(
        {{"path", arguments.path}, {"policy", answer.policy()}, {"inherited_from", answer.inherited_from()}});
    return {};
  }
  const bool inherited = !answer.inherited_from().empty() && answer.inherited_from() != arguments.path;
  std::printf("%s%s\n", answer.policy().c_str(),
              inherited ? fmt::format("  (from {})", shown_name(answer.inherited_from())).c_str() : "");
  return {};
}

/// Sets it though there may be too few servers now, since more may come; but says so.
Status set_policy(Session& session, BlockingClient& client, const PolicyArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  KINTSUGI_TRY(client.run(client.async().set_policy(arguments.path, arguments.policy)));
  KINTSUGI_ASSIGN(const uint32_t there, count_servers(client));
  const uint32_t needed = servers_for(arguments.policy);
  if (session.json) {
    print_json({{"ok", true}, {"servers_needed", needed}, {"servers", there}});
  } else if (needed > there) {
    fmt::print(
        "{} is set, but it needs {} servers and {} are there: large files cannot be stored below {} before "
        "there are more.\n",
        arguments.policy, needed, there, shown_name(arguments.path));
  }
  return {};
}

}  // namespace

std::vector<Command> policy_commands() {
  const auto a = std::make_shared<PolicyArguments>();
  return {{.name = "policy",
           .help = "How new files are spread and protected",
           .commands = {{.name = "list",
                         .help = "List the policies of this cluster",
                         .prints_json = true,
                         .run = connected(list_policies)},
                        {.name = "get",
                         .help = "Show the policy that new files at a path get",
                         .options = {{"PATH", &a->path, "File or directory in the cluster", kRequired}},
                         .prints_json = true,
                         .run = connected(a, get_policy)},
                        {.name = "set",
                         .help = "Set the policy for new files below a directory",
                         .options = {{"PATH", &a->path, "Directory in the cluster", kRequired},
                                     {"POLICY", &a->policy, "For example rs-6-3-1024k", kRequired}},
                         .prints_json = true,
                         .run = connected(a, set_policy)}}}};
}

}  // namespace kintsugi::cli
