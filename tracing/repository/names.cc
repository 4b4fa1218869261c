#include "tracing/repository/names.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include <cxxabi.h>
#include <fmt/format.h>

namespace kintsugi::tracing {
namespace {

/// Parts of a coroutine that are functions of their own.
constexpr std::array<std::string_view, 3> kParts{".resume", ".destroy", ".cleanup"};

std::string demangled(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && name != nullptr ? name.get() : mangled;
}

bool begins(std::string_view text, size_t at, std::string_view with) {
  return text.substr(at).starts_with(with);
}

/// "R ns::Class<A>::function<B>(P) const" without result, parameters and arguments: what stands outside of angle brackets, from behind
/// the last blank before the parameters on.
std::string without_types(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)", kLambda = "{lambda(",
                             kOperator = "operator";
  std::string kept;
  int angles = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (angles == 0 && begins(name, i, kAnonymous)) {
      i += kAnonymous.size() + 1;  // and the colons behind it
      continue;
    }
    if (angles == 0 && begins(name, i, kLambda)) {
      i = name.find('}', i);
      kept += "lambda";
      if (i == std::string_view::npos) break;
      continue;
    }
    if (angles == 0 && begins(name, i, kOperator)) {
      // An operator's own signs are none of what is left out.
      size_t end = i + kOperator.size();
      end = begins(name, end, "()") ? end + 2 : std::min(name.find('(', end), name.size());
      kept += name.substr(i, end - i);
      i = end - 1;
      continue;
    }
    if (name[i] == '<') ++angles;
    if (angles == 0 && name[i] == '(') break;
    if (angles == 0 && name[i] == ' ') kept.clear();
    if (angles == 0 && name[i] != ' ') kept += name[i];
    if (name[i] == '>') --angles;
  }
  return kept;
}

std::string debug_file_of(const ElfImage& image, const std::string& debug_files) {
  std::string id;
  for (const char byte : image.build_id())
    id += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  const size_t directory = std::min<size_t>(2, id.size());
  return fmt::format("{}/.build-id/{}/{}.debug", debug_files, id.substr(0, directory), id.substr(directory));
}

std::vector<std::string> names_by(const std::vector<ElfImage::Symbol>& symbols, const SledMap& sleds) {
  std::unordered_map<uint64_t, std::string_view> by_address;
  for (const ElfImage::Symbol& symbol : symbols)
    by_address.emplace(symbol.address, symbol.name);
  std::vector<std::string> names;
  for (const SleddedFunction& function : sleds.functions) {
    const auto found = by_address.find(function.address);
    names.emplace_back(found == by_address.end() ? std::string_view() : found->second);
  }
  return names;
}

}  // namespace

std::string short_name(std::string_view mangled) {
  std::string_view part;
  for (const std::string_view each : kParts)
    if (const size_t at = mangled.rfind(each); at != std::string_view::npos && at > 0) {
      part = each;
      mangled = mangled.substr(0, at);
      break;
    }
  std::string name = without_types(demangled(std::string(mangled)));
  for (constexpr std::string_view kOuter = "kintsugi::"; name.starts_with(kOuter);)
    name.erase(0, kOuter.size());
  return name.append(part);
}

Result<std::vector<std::string>> mangled_names(const ElfImage& image, const SledMap& sleds,
                                               const std::string& debug_files) {
  const std::vector<ElfImage::Symbol> own = image.functions();
  if (!own.empty()) return names_by(own, sleds);
  const std::string path = debug_file_of(image, debug_files);
  const auto file = MappedFile::open(path);
  if (!file)
    return Status{
        Code::kNotFound,
        fmt::format("it was stripped, and {} is not there: install the package with its debug symbols",
                    path)};
  const auto symbols = ElfImage::parse(file->bytes());
  if (!symbols) return symbols.error().with_context(path);
  if (symbols->build_id() != image.build_id())
    return Status{Code::kConflict, path + " has the debug symbols of another build"};
  return names_by(symbols->functions(), sleds);
}

std::vector<uint32_t> functions_named(const std::vector<std::string>& mangled, std::string_view wanted) {
  std::vector<uint32_t> found;
  const size_t last = wanted.rfind(':');
  // A mangled name has the parts of the name in it: few have to be made readable.
  const std::string_view hint = last == std::string_view::npos ? wanted : wanted.substr(last + 1);
  for (size_t i = 0; i < mangled.size(); ++i) {
    if (mangled[i].find(hint) == std::string_view::npos) continue;
    std::string name = short_name(mangled[i]);
    for (const std::string_view part : kParts)
      if (name.ends_with(part)) name.resize(name.size() - part.size());
    const bool behind_scope = name.size() > wanted.size() + 2 && name.ends_with(wanted) &&
                              begins(name, name.size() - wanted.size() - 2, "::");
    if (name == wanted || behind_scope) found.push_back(static_cast<uint32_t>(i + 1));
  }
  return found;
}

}  // namespace kintsugi::tracing
