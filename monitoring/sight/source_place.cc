#include "monitoring/sight/source_place.h"

#include <string_view>

namespace kintsugi::sight {

std::string short_file(const char* file) {
  static const std::string_view here = __FILE__;
  static const size_t root = here.size() - std::string_view("monitoring/sight/source_place.cc").size();
  std::string_view name = file;
  if (name.starts_with(here.substr(0, root))) name.remove_prefix(root);
  // A compiler that was given a path from its directory of work tells that one.
  while (name.starts_with("../"))
    name.remove_prefix(3);
  return std::string(name);
}

std::string short_function(const char* function) {
  std::string_view name = function;
  // "R ns::Class::function(P)" with templates anywhere: what stands before the first parenthesis outside of them,
  // behind the last blank before that.
  size_t end = name.size(), begin = 0;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth != 0) continue;
    if (name[i] == '(' && !name.substr(i).starts_with("(anonymous namespace)") &&
        !name.substr(i).starts_with("(lambda")) {
      end = i;
      break;
    }
    if (name[i] == ' ' && !name.substr(i).starts_with(" namespace)")) begin = i + 1;
  }
  std::string result(name.substr(begin, end - begin));
  for (std::string_view noise : {"kintsugi::", "(anonymous namespace)::"})
    for (size_t at = result.find(noise); at != std::string::npos; at = result.find(noise))
      result.erase(at, noise.size());
  return result;
}

}  // namespace kintsugi::sight
