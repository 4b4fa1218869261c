// policy list, get, set.
#include <cstdio>

#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/paths.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

struct Arguments {
  std::string path, policy;
};

Status list(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::ListPoliciesResponse answer, client.run(client.async().list_policies()));
  Json names = Json::array();
  for (const std::string& name : answer.policies()) {
    names.push_back(name);
    if (!session.json)
      std::printf("%s%s\n", name.c_str(), name == answer.default_policy() ? "  (default)" : "");
  }
  if (session.json) print_json({{"policies", std::move(names)}, {"default_policy", answer.default_policy()}});
  return {};
}

Status get(Session& session, BlockingClient& client, const Arguments& arguments) {
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

Status set(Session&, BlockingClient& client, const Arguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  return client.run(client.async().set_policy(arguments.path, arguments.policy));
}

}  // namespace

std::vector<Command> policy_commands() {
  const auto a = std::make_shared<Arguments>();
  return {{.name = "policy",
           .help = "How new files are spread and protected",
           .commands = {{.name = "list",
                         .help = "List the policies of this cluster",
                         .prints_json = true,
                         .run = connected(list)},
                        {.name = "get",
                         .help = "Show the policy that new files at a path get",
                         .options = {{"PATH", &a->path, "File or directory in the cluster", kRequired}},
                         .prints_json = true,
                         .run = connected(a, get)},
                        {.name = "set",
                         .help = "Set the policy for new files below a directory",
                         .options = {{"PATH", &a->path, "Directory in the cluster", kRequired},
                                     {"POLICY", &a->policy, "For example rs-6-3-1024k", kRequired}},
                         .run = connected(a, set)}}}};
}

}  // namespace kintsugi::cli
