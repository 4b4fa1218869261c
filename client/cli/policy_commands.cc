#include <cstdio>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/commands.h"
#include "client/cli/format.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

struct Arguments {
  std::string path, policy;
};

Status list(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::ListPoliciesResponse answer, client.run(client.async().list_policies()));
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
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
              inherited ? fmt::format("  (from {})", answer.inherited_from()).c_str() : "");
  return {};
}

Status set(Session&, BlockingClient& client, const Arguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  return client.run(client.async().set_policy(arguments.path, arguments.policy));
}

}  // namespace

void add_policy_commands(CLI::App& app, Session& session) {
  CLI::App* policy = app.add_subcommand("policy", "How new files are spread and protected");
  policy->require_subcommand(1);
  auto arguments = std::make_shared<Arguments>();

  CLI::App* list_command = policy->add_subcommand("list", "The policies of this cluster");
  list_command->add_flag("--json", session.json, "Print one JSON document");
  list_command->callback([&session] {
    session.choose("policy list", [&session]() -> Status {
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return list(session, *client);
    });
  });

  CLI::App* get_command = policy->add_subcommand("get", "The policy that new files at a path get");
  get_command->add_option("PATH", arguments->path)->required();
  get_command->add_flag("--json", session.json, "Print one JSON document");
  get_command->callback([&session, arguments] {
    session.choose("policy get", [&session, arguments]() -> Status {
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return get(session, *client, *arguments);
    });
  });

  CLI::App* set_command = policy->add_subcommand("set", "Set the policy for new files below a directory");
  set_command->add_option("PATH", arguments->path)->required();
  set_command->add_option("POLICY", arguments->policy, "For example rs-6-3-1024k")->required();
  set_command->callback([&session, arguments] {
    session.choose("policy set", [&session, arguments]() -> Status {
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return set(session, *client, *arguments);
    });
  });
}

}  // namespace kintsugi::cli
