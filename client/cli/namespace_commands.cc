// ls, stat, rm, mv, mkdir, rmdir, du, df.
#include <cstdio>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/paths.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/traced_command.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

struct NamespaceArguments {
  std::vector<std::string> paths;
  std::string path = "/", to = "/";
  bool long_format = false, recursive = false, parents = false, replace = false;
};

/// Connects and does `action`, once all paths in the arguments have been found to be absolute.
Run on_paths(std::shared_ptr<NamespaceArguments> arguments,
             Status (*action)(Session&, BlockingClient&, const NamespaceArguments&)) {
  return [arguments, act = connected(arguments, action)](Session& session) -> Status {
    KINTSUGI_TRY(check_remote(arguments->path));
    KINTSUGI_TRY(check_remote(arguments->to));
    for (const std::string& path : arguments->paths)
      KINTSUGI_TRY(check_remote(path));
    return act(session);
  };
}

/// Does `one` with each path. A failure is complained about, and the others follow.
template <class One>
Status for_each_path(Session& session, const NamespaceArguments& arguments, One one) {
  for (const std::string& path : arguments.paths) {
    const Status status = one(path);
    if (!status.ok()) session.complain(status);
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
  std::string line = shown_name(name) + (is_directory && name != "/" ? "/" : "");
  if (long_format) {
    line = fmt::format("{} {:>3} {:>5} {:>5} {:>14} {} {}", mode_text(attributes), attributes.links(),
                       attributes.uid(), attributes.gid(), attributes.size(),
                       local_time(attributes.modified_ns()), line);
  }
  std::puts(line.c_str());
}

Json entry_json(const std::string& name, const proto::Attributes& attributes) {
  Json json{{"name", name}};
  json.append(to_json(attributes));
  return json;
}

Status list_path(Session& session, BlockingClient& client, const NamespaceArguments& arguments) {
  KINTSUGI_ASSIGN(const proto::Attributes attributes, client.stat(arguments.path));
  Json document{{"path", arguments.path}, {"type", "file"}};
  if (attributes.type() == proto::Attributes::FILE) {
    if (!session.json) print_entry(arguments.path, attributes, arguments.long_format);
    document["entries"] = Json::array();
    document["entries"].push_back(entry_json(base_name(arguments.path), attributes));
    if (session.json) print_json(document);
    return {};
  }
  document["type"] = "directory";
  document["entries"] = Json::array();
  std::vector<std::string> directories{""};  // relative to the path that was given
  for (size_t i = 0; i < directories.size(); ++i) {
    const std::string relative = directories[i];
    const std::string directory = relative.empty() ? arguments.path : join(arguments.path, relative);
    KINTSUGI_ASSIGN(const auto entries, all_entries(client, directory));
    if (arguments.recursive && !session.json) fmt::print("{}{}:\n", i > 0 ? "\n" : "", shown_name(directory));
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

Json stat_json(const std::string& path, const proto::Attributes& attributes,
               const proto::OpenReadResponse& where) {
  Json document{{"path", path}};
  document.append(to_json(attributes));
  Json extents = Json::array(), stripes = Json::array();
  for (const proto::Extent& extent : where.extents()) {
    extents.push_back({{"file_offset", extent.file_offset()},
                       {"length", extent.length()},
                       {"stripe_id", extent.stripe_id()},
                       {"stripe_offset", extent.stripe_offset()}});
  }
  for (const proto::Stripe& stripe : where.stripes())
    stripes.push_back(to_json(stripe));
  document["extents"] = std::move(extents);
  document["stripes"] = std::move(stripes);
  return document;
}

void print_attributes(const std::string& path, const proto::Attributes& attributes) {
  fmt::print("path:     {}\n", shown_name(path));
  fmt::print("type:     {}\n", attributes.type() == proto::Attributes::DIRECTORY ? "directory" : "file");
  fmt::print("inode:    {}\n", attributes.inode());
  fmt::print("size:     {} ({})\n", attributes.size(), human_bytes(attributes.size()));
  fmt::print("mode:     {}\n", mode_text(attributes));
  fmt::print("owner:    {}:{}\n", attributes.uid(), attributes.gid());
  fmt::print("links:    {}\n", attributes.links());
  fmt::print("modified: {}\n", local_time(attributes.modified_ns()));
  fmt::print("changed:  {}\n", local_time(attributes.changed_ns()));
  fmt::print("policy:   {}\n", attributes.policy().empty() ? "inherited" : attributes.policy());
}

void print_stripes(const proto::OpenReadResponse& where) {
  fmt::print("stripes:  {}\n", where.stripes_size());
  for (const proto::Stripe& stripe : where.stripes()) {
    if (stripe.chunks().empty()) {
      fmt::print("  {}  {}, kept with the metadata\n", stripe.stripe_id(), human_bytes(stripe.length()));
      continue;
    }
    const auto available =
        std::count_if(stripe.chunks().begin(), stripe.chunks().end(),
                      [](const proto::ChunkPlacement& chunk) { return chunk.available(); });
    fmt::print("  {}  {}  {}, {} of {} chunks available\n", stripe.stripe_id(), stripe.policy(),
               human_bytes(stripe.length()), available, stripe.chunks_size());
  }
}

Status stat_path(Session& session, BlockingClient& client, const NamespaceArguments& arguments) {
  KINTSUGI_ASSIGN(const proto::Attributes attributes, client.stat(arguments.path));
  const bool is_file = attributes.type() == proto::Attributes::FILE;
  proto::OpenReadResponse where;
  if (is_file) {
    KINTSUGI_ASSIGN(where, client.run(client.async().extents(arguments.path)));
  }
  if (session.json) {
    print_json(stat_json(arguments.path, attributes, where));
    return {};
  }
  print_attributes(arguments.path, attributes);
  if (is_file) print_stripes(where);
  return {};
}

Result<bool> is_directory(BlockingClient& client, const std::string& path) {
  KINTSUGI_ASSIGN(const proto::Attributes attributes, client.stat(path));
  return attributes.type() == proto::Attributes::DIRECTORY;
}

Status remove(Session& session, BlockingClient& client, const NamespaceArguments& arguments) {
  return for_each_path(session, arguments, [&](const std::string& path) -> Status {
    if (arguments.recursive) return client.remove(path, true);
    KINTSUGI_ASSIGN(const bool directory, is_directory(client, path));
    if (directory) return {Code::kIsDirectory, path + " is a directory (use -r, or rmdir)"};
    return client.remove(path, false);
  });
}

Status remove_directories(Session& session, BlockingClient& client, const NamespaceArguments& arguments) {
  return for_each_path(session, arguments, [&](const std::string& path) -> Status {
    KINTSUGI_ASSIGN(const bool directory, is_directory(client, path));
    if (!directory) return {Code::kNotDirectory, path + " is not a directory"};
    return client.remove(path, false);  // removing without `recursive` refuses a directory that is not empty
  });
}

Status make_directories(Session& session, BlockingClient& client, const NamespaceArguments& arguments) {
  return for_each_path(session, arguments, [&](const std::string& path) -> Status {
    KINTSUGI_TRY(check_new_name(path));
    return client.make_directory(path, arguments.parents);
  });
}

Status move(Session&, BlockingClient& client, const NamespaceArguments& arguments) {
  std::string to = trimmed(arguments.to);
  const auto there = client.stat(to);
  if (there && there->type() == proto::Attributes::DIRECTORY) to = join(to, base_name(arguments.path));
  return client.rename(trimmed(arguments.path), to, arguments.replace);
}

Status disk_usage(Session& session, BlockingClient& client, const NamespaceArguments& arguments) {
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
  fmt::print("{} in {} and {}, {} stored  {}\n", human_bytes(usage.bytes()), counted(usage.files(), "file"),
             counted(usage.directories(), "directory", "directories"), human_bytes(usage.stored_bytes()),
             shown_name(arguments.path));
  return {};
}

Status disk_free(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::DiskFreeResponse free, client.run(client.async().disk_free()));
  if (session.json) {
    print_json({{"total_bytes", free.total_bytes()},
                {"free_bytes", free.free_bytes()},
                {"stored_bytes", free.stored_bytes()},
                {"policy", free.policy()},
                {"storable_bytes", free.storable_bytes()},
                {"servers_alive", free.servers_alive()},
                {"servers", free.servers()},
                {"files", free.files()},
                {"stripes", free.stripes()},
                {"health", to_json(free.health())}});
    return {};
  }
  fmt::print("{} free of {}, room for {} of files with {}; {} stored; {} of {} servers alive; {}, {}\n",
             human_bytes(free.free_bytes()), human_bytes(free.total_bytes()),
             human_bytes(free.storable_bytes()), free.policy(), human_bytes(free.stored_bytes()),
             free.servers_alive(), free.servers(), counted(free.files(), "file"),
             counted(free.stripes(), "stripe"));
  if (const std::string lacks = health_text(free.health()); !lacks.empty()) fmt::print("{}\n", lacks);
  return {};
}

}  // namespace

std::vector<Command> namespace_commands() {
  const auto a = std::make_shared<NamespaceArguments>();
  const char* const file_or_directory = "File or directory in the cluster";
  return with_trace({
      {.name = "ls",
       .help = "List a directory; a name with other than printable characters is shown as $'a\\nb'",
       .options = {{"PATH", &a->path, "File or directory in the cluster; default: /"},
                   {"-l", &a->long_format, "With modes, owners, sizes and times"},
                   {"-R", &a->recursive, "With all directories below"}},
       .prints_json = true,
       .run = on_paths(a, list_path)},
      {.name = "stat",
       .help = "Show a file's or directory's attributes and stripes",
       .options = {{"PATH", &a->path, file_or_directory, kRequired}},
       .prints_json = true,
       .run = on_paths(a, stat_path)},
      {.name = "rm",
       .help = "Remove files, with -r whole directories",
       .options = {{"PATH", &a->paths, "Files or directories in the cluster", kRequired},
                   {"-r,-R,--recursive", &a->recursive, "Directories and all they hold"}},
       .run = on_paths(a, remove)},
      {.name = "mv",
       .help = "Rename, or move into an existing directory",
       .options = {{"FROM", &a->path, file_or_directory, kRequired},
                   {"TO", &a->to, "Its new path; an existing directory: into it", kRequired},
                   {"--replace", &a->replace, "Replace a file that exists"}},
       .run = on_paths(a, move)},
      {.name = "mkdir",
       .help = "Make directories",
       .options = {{"PATH", &a->paths, "Directories in the cluster", kRequired},
                   {"-p,--parents", &a->parents, "Parents too; no error when it exists"}},
       .run = on_paths(a, make_directories)},
      {.name = "rmdir",
       .help = "Remove empty directories",
       .options = {{"PATH", &a->paths, "Directories in the cluster", kRequired}},
       .run = on_paths(a, remove_directories)},
      {.name = "du",
       .help = "Show how much a path holds",
       .options = {{"PATH", &a->path, "File or directory in the cluster; default: /"}},
       .prints_json = true,
       .run = on_paths(a, disk_usage)},
      {.name = "df",
       .help = "Show how much the cluster holds and has free",
       .prints_json = true,
       .run = connected(disk_free)},
  });
}

}  // namespace kintsugi::cli
