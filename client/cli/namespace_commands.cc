// ls, stat, rm, mv, mkdir, du, df.
#include <cstdio>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/commands.h"
#include "client/cli/format.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using Json = nlohmann::ordered_json;

struct Arguments {
  std::vector<std::string> paths;
  std::string path = "/", to;
  bool long_format = false, recursive = false, parents = false, replace = false;
};

/// `action` gets the connected client.
template <class Action>
void on_run(CLI::App* command, Session& session, std::shared_ptr<Arguments> arguments, Action action) {
  command->callback([command, &session, arguments, action] {
    session.choose(command->get_name(), [&session, arguments, action]() -> Status {
      KINTSUGI_TRY(check_remote(arguments->path));
      for (const std::string& path : arguments->paths)
        KINTSUGI_TRY(check_remote(path));
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return action(session, *client, *arguments);
    });
  });
}

/// Does `one` with each path; the others follow when one fails.
template <class One>
Status for_each_path(Session& session, const Arguments& arguments, One one) {
  for (const std::string& path : arguments.paths) {
    const Status status = one(path);
    if (!status.ok()) session.complain(describe(status));
  }
  return {};
}

Result<std::vector<proto::DirectoryEntry>> all_entries(BlockingClient& client, const std::string& path) {
  std::vector<proto::DirectoryEntry> entries;
  std::string after;
  while (true) {
    KINTSUGI_ASSIGN(const proto::ListResponse page, client.list(path, after));
    entries.insert(entries.end(), page.entries().begin(), page.entries().end());
    if (!page.more() || page.entries().empty()) return entries;
    after = entries.back().name();
  }
}

void print_entry(const std::string& name, const proto::Attributes& attributes, bool long_format) {
  const bool is_directory = attributes.type() == proto::Attributes::DIRECTORY;
  std::string line = name + (is_directory && name != "/" ? "/" : "");
  if (long_format) {
    line = fmt::format("{} {:>3} {:>5} {:>5} {:>14} {} {}", mode_text(attributes), attributes.links(),
                       attributes.uid(), attributes.gid(), attributes.size(),
                       local_time(attributes.modified_ns()), line);
  }
  std::puts(line.c_str());
}

Json entry_json(const std::string& name, const proto::Attributes& attributes) {
  Json json{{"name", name}};
  json.update(to_json(attributes));
  return json;
}

Status list_path(Session& session, BlockingClient& client, const Arguments& arguments) {
  KINTSUGI_ASSIGN(const proto::Attributes attributes, client.stat(arguments.path));
  Json document{{"path", arguments.path}, {"type", "file"}};
  if (attributes.type() == proto::Attributes::FILE) {
    if (!session.json) print_entry(arguments.path, attributes, arguments.long_format);
    document["entries"] = Json::array({entry_json(base_name(arguments.path), attributes)});
    if (session.json) print_json(document);
    return {};
  }
  document["type"] = "directory";
  document["entries"] = Json::array();
  std::vector<std::string> directories{""};  // relative to the path
  for (size_t i = 0; i < directories.size(); ++i) {
    const std::string relative = directories[i];
    const std::string directory = relative.empty() ? arguments.path : join(arguments.path, relative);
    KINTSUGI_ASSIGN(const auto entries, all_entries(client, directory));
    if (arguments.recursive && !session.json) std::printf("%s%s:\n", i > 0 ? "\n" : "", directory.c_str());
    for (const proto::DirectoryEntry& entry : entries) {
      const std::string name = relative.empty() ? entry.name() : join(relative, entry.name());
      if (session.json) {
        document["entries"].push_back(entry_json(name, entry.attributes()));
      } else {
        print_entry(entry.name(), entry.attributes(), arguments.long_format);
      }
      if (arguments.recursive && entry.attributes().type() == proto::Attributes::DIRECTORY)
        directories.push_back(name);
    }
  }
  if (session.json) print_json(document);
  return {};
}

Status stat_path(Session& session, BlockingClient& client, const Arguments& arguments) {
  KINTSUGI_ASSIGN(const proto::Attributes attributes, client.stat(arguments.path));
  proto::OpenReadResponse where;
  if (attributes.type() == proto::Attributes::FILE) {
    KINTSUGI_ASSIGN(where, client.run(client.async().extents(arguments.path)));
  }
  if (session.json) {
    Json document{{"path", arguments.path}};
    document.update(to_json(attributes));
    document["extents"] = Json::array();
    document["stripes"] = Json::array();
    for (const proto::Extent& extent : where.extents()) {
      document["extents"].push_back({{"file_offset", extent.file_offset()},
                                     {"length", extent.length()},
                                     {"stripe_id", extent.stripe_id()},
                                     {"stripe_offset", extent.stripe_offset()}});
    }
    for (const proto::Stripe& stripe : where.stripes())
      document["stripes"].push_back(to_json(stripe));
    print_json(document);
    return {};
  }
  const bool is_directory = attributes.type() == proto::Attributes::DIRECTORY;
  fmt::print(
      "path:     {}\ntype:     {}\ninode:    {}\nsize:     {} ({})\nmode:     {}\nowner:    {}:{}\nlinks:    "
      "{}\n",
      arguments.path, is_directory ? "directory" : "file", attributes.inode(), attributes.size(),
      human_bytes(attributes.size()), mode_text(attributes), attributes.uid(), attributes.gid(),
      attributes.links());
  fmt::print("modified: {}\nchanged:  {}\npolicy:   {}\n", local_time(attributes.modified_ns()),
             local_time(attributes.changed_ns()),
             attributes.policy().empty() ? "inherited" : attributes.policy());
  if (!is_directory) fmt::print("stripes:  {}\n", where.stripes_size());
  for (const proto::Stripe& stripe : where.stripes()) {
    const auto available =
        std::count_if(stripe.chunks().begin(), stripe.chunks().end(),
                      [](const proto::ChunkPlacement& chunk) { return chunk.available(); });
    fmt::print("  {}  {}  {}, {} of {} chunks available\n", stripe.stripe_id(), stripe.policy(),
               human_bytes(stripe.length()), available, stripe.chunks_size());
  }
  return {};
}

Status move(Session&, BlockingClient& client, const Arguments& arguments) {
  KINTSUGI_TRY(check_remote(arguments.to));
  std::string to = trimmed(arguments.to);
  const auto there = client.stat(to);
  if (there && there->type() == proto::Attributes::DIRECTORY) to = join(to, base_name(arguments.path));
  return client.rename(trimmed(arguments.path), to, arguments.replace);
}

Status disk_usage(Session& session, BlockingClient& client, const Arguments& arguments) {
  KINTSUGI_ASSIGN(const proto::DiskUsageResponse usage,
                  client.run(client.async().disk_usage(arguments.path)));
  if (session.json) {
    print_json({{"path", arguments.path},
                {"files", usage.files()},
                {"directories", usage.directories()},
                {"bytes", usage.bytes()},
                {"stored_bytes", usage.stored_bytes()}});
    return {};
  }
  fmt::print("{} in {} files and {} directories, {} stored  {}\n", human_bytes(usage.bytes()), usage.files(),
             usage.directories(), human_bytes(usage.stored_bytes()), arguments.path);
  return {};
}

Status disk_free(Session& session, BlockingClient& client, const Arguments&) {
  KINTSUGI_ASSIGN(const proto::DiskFreeResponse free, client.run(client.async().disk_free()));
  if (session.json) {
    print_json({{"total_bytes", free.total_bytes()},
                {"free_bytes", free.free_bytes()},
                {"stored_bytes", free.stored_bytes()},
                {"servers_alive", free.servers_alive()},
                {"servers", free.servers()},
                {"files", free.files()},
                {"stripes", free.stripes()}});
    return {};
  }
  fmt::print("{} free of {}, {} stored; {} of {} servers alive; {} files, {} stripes\n",
             human_bytes(free.free_bytes()), human_bytes(free.total_bytes()),
             human_bytes(free.stored_bytes()), free.servers_alive(), free.servers(), free.files(),
             free.stripes());
  return {};
}

}  // namespace

void add_namespace_commands(CLI::App& app, Session& session) {
  auto ls_arguments = std::make_shared<Arguments>();
  CLI::App* ls = app.add_subcommand("ls", "List a directory");
  ls->add_option("PATH", ls_arguments->path, "Default: /");
  ls->add_flag("-l", ls_arguments->long_format, "With modes, owners, sizes and times");
  ls->add_flag("-R", ls_arguments->recursive, "With all directories below");
  ls->add_flag("--json", session.json, "Print one JSON document");
  on_run(ls, session, ls_arguments, list_path);

  auto stat_arguments = std::make_shared<Arguments>();
  CLI::App* stat = app.add_subcommand("stat", "Show a file's or directory's attributes and stripes");
  stat->add_option("PATH", stat_arguments->path)->required();
  stat->add_flag("--json", session.json, "Print one JSON document");
  on_run(stat, session, stat_arguments, stat_path);

  auto rm_arguments = std::make_shared<Arguments>();
  CLI::App* rm = app.add_subcommand("rm", "Remove files, with -r whole directories");
  rm->add_option("PATH", rm_arguments->paths)->required();
  rm->add_flag("-r,-R,--recursive", rm_arguments->recursive, "Directories and all they hold");
  on_run(rm, session, rm_arguments, [](Session& s, BlockingClient& client, const Arguments& a) {
    return for_each_path(s, a, [&](const std::string& path) { return client.remove(path, a.recursive); });
  });

  auto mv_arguments = std::make_shared<Arguments>();
  CLI::App* mv = app.add_subcommand("mv", "Rename; an existing directory as target: into it");
  mv->add_option("FROM", mv_arguments->path)->required();
  mv->add_option("TO", mv_arguments->to)->required();
  mv->add_flag("--replace", mv_arguments->replace, "Replace a file that exists");
  on_run(mv, session, mv_arguments, move);

  auto mkdir_arguments = std::make_shared<Arguments>();
  CLI::App* mkdir = app.add_subcommand("mkdir", "Make directories");
  mkdir->add_option("PATH", mkdir_arguments->paths)->required();
  mkdir->add_flag("-p,--parents", mkdir_arguments->parents, "Parents too; no error when it exists");
  on_run(mkdir, session, mkdir_arguments, [](Session& s, BlockingClient& client, const Arguments& a) {
    return for_each_path(s, a,
                         [&](const std::string& path) { return client.make_directory(path, a.parents); });
  });

  auto du_arguments = std::make_shared<Arguments>();
  CLI::App* du = app.add_subcommand("du", "How much a path holds");
  du->add_option("PATH", du_arguments->path, "Default: /");
  du->add_flag("--json", session.json, "Print one JSON document");
  on_run(du, session, du_arguments, disk_usage);

  CLI::App* df = app.add_subcommand("df", "How much the cluster holds and has free");
  df->add_flag("--json", session.json, "Print one JSON document");
  on_run(df, session, std::make_shared<Arguments>(), disk_free);
}

}  // namespace kintsugi::cli
