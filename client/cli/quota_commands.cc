// quota set, show, list, remove.
#include <cstdio>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/paths.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

constexpr uint64_t kNoLimit = UINT64_MAX;

struct QuotaArguments {
  std::string path;
  uint64_t bytes = kNoLimit, files = kNoLimit;
};

Json json_of(const proto::Quota& quota) {
  Json json{{"path", quota.path()},
            {"bytes", quota.bytes()},
            {"files", quota.files()},
            {"counting", quota.counting()}};
  if (quota.has_max_bytes()) json["max_bytes"] = quota.max_bytes();
  if (quota.has_max_files()) json["max_files"] = quota.max_files();
  return json;
}

void print(const proto::Quota& quota) {
  const std::string bytes = quota.has_max_bytes() ? " of " + human_bytes(quota.max_bytes()) : "";
  const std::string files = quota.has_max_files() ? fmt::format(" of {}", quota.max_files()) : "";
  fmt::print("{:<32}  {}{}, {}{} files{}\n", shown_name(quota.path()), human_bytes(quota.bytes()), bytes,
             quota.files(), files, quota.counting() ? "  (still counting)" : "");
}

Status set_quota(Session&, BlockingClient& client, const QuotaArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  std::optional<uint64_t> bytes, files;
  if (arguments.bytes != kNoLimit) bytes = arguments.bytes;
  if (arguments.files != kNoLimit) files = arguments.files;
  return client.run(client.async().set_quota(arguments.path, bytes, files));
}

Status remove_quota(Session&, BlockingClient& client, const QuotaArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  return client.run(client.async().set_quota(arguments.path, std::nullopt, std::nullopt));
}

Status show_quota(Session& session, BlockingClient& client, const QuotaArguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.path));
  KINTSUGI_ASSIGN(const proto::GetQuotasResponse answer,
                  client.run(client.async().quotas_at(arguments.path)));
  Json quotas = Json::array();
  for (const proto::Quota& quota : answer.quotas()) {
    quotas.push_back(json_of(quota));
    if (!session.json) print(quota);
  }
  if (session.json) {
    print_json({{"path", arguments.path}, {"quotas", std::move(quotas)}});
  } else if (answer.quotas().empty()) {
    fmt::print("no quota limits {}\n", shown_name(arguments.path));
  }
  return {};
}

Status list_quotas(Session& session, BlockingClient& client) {
  Json quotas = Json::array();
  uint64_t after = 0;
  while (true) {
    KINTSUGI_ASSIGN(const proto::ListQuotasResponse page, client.run(client.async().list_quotas(after)));
    for (const proto::Quota& quota : page.quotas()) {
      after = quota.directory();
      quotas.push_back(json_of(quota));
      if (!session.json) print(quota);
    }
    if (!page.more() || page.quotas().empty()) break;
  }
  if (session.json) print_json({{"quotas", std::move(quotas)}});
  return {};
}

}  // namespace

std::vector<Command> quota_commands() {
  const auto a = std::make_shared<QuotaArguments>();
  const Option directory{"PATH", &a->path, "Directory in the cluster", kRequired};
  return {
      {.name = "quota",
       .help = "Limits on what directories may hold",
       .commands = {{.name = "set",
                     .help = "Limit what a directory may hold; what is not given is not limited",
                     .options = {directory,
                                 {"--bytes", Bytes{&a->bytes}, "Most bytes in all files, for example 10g"},
                                 {"--files", &a->files, "Most names: files, directories, links and so on"}},
                     .check =
                         [a] {
                           return a->bytes == kNoLimit && a->files == kNoLimit
                                      ? Status{Code::kInvalidArgument, "give --bytes, --files or both"}
                                      : Status{};
                         },
                     .run = connected(a, set_quota)},
                    {.name = "show",
                     .help = "Show the quotas that limit what is at a path, the nearest first",
                     .options = {{"PATH", &a->path, "File or directory in the cluster", kRequired}},
                     .prints_json = true,
                     .run = connected(a, show_quota)},
                    {.name = "list",
                     .help = "Show all quotas and what is used of them",
                     .prints_json = true,
                     .run = connected(list_quotas)},
                    {.name = "remove",
                     .help = "Remove the limits of a directory",
                     .options = {directory},
                     .run = connected(a, remove_quota)}}}};
}

}  // namespace kintsugi::cli
