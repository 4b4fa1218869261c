#include "client/cli/paths.h"

#include <fmt/format.h>

namespace kintsugi::cli {

Status check_remote(const std::string& path) {
  if (path.starts_with('/')) return {};
  return {Code::kInvalidArgument, fmt::format("{}: a path in the cluster begins with /", path)};
}

Status check_new_name(const std::string& path) {
  const std::string name = base_name(path);
  const bool is_trash = name == ".trash";
  if (name != ".snapshots" && !is_trash) return {};
  return {Code::kInvalidArgument, fmt::format("{}: this name is reserved for {} of its directory", path,
                                              is_trash ? "the trash" : "the snapshots")};
}

std::string trimmed(std::string path) {
  while (path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  return path;
}

std::string join(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

std::string base_name(const std::string& path) {
  const std::string clean = trimmed(path);
  return clean.substr(clean.rfind('/') + 1);
}

}  // namespace kintsugi::cli
