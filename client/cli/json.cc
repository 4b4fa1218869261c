#include "client/cli/json.h"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "common/base/assert.h"

namespace kintsugi::cli {

/// Numbers and escapes are nlohmann's business.
struct Json::Writer {
  using Document = nlohmann::ordered_json;

  Document operator()(const Array& array) const {
    Document document = Document::array();
    for (const Json& element : array)
      document.push_back(std::visit(*this, element.value_));
    return document;
  }
  Document operator()(const Object& object) const {
    Document document = Document::object();
    for (const auto& [key, member] : object)
      document[key] = std::visit(*this, member.value_);
    return document;
  }
  Document operator()(const auto& scalar) const { return scalar; }

  static std::string text(const Json& json, int indent) {
    return std::visit(Writer{}, json.value_).dump(indent, ' ', false, Document::error_handler_t::replace);
  }
};

Json Json::array() {
  Json json;
  json.value_ = Array();
  return json;
}

void Json::push_back(Json element) {
  Array* array = std::get_if<Array>(&value_);
  KINTSUGI_ASSERT(array != nullptr);
  array->push_back(std::move(element));
}

Json& Json::operator[](std::string_view key) {
  Object* object = std::get_if<Object>(&value_);
  KINTSUGI_ASSERT(object != nullptr);
  const auto found =
      std::find_if(object->begin(), object->end(), [&](const Member& m) { return m.first == key; });
  if (found != object->end()) return found->second;
  return object->emplace_back(std::string(key), Json()).second;
}

void Json::append(Json object) {
  Object* into = std::get_if<Object>(&value_);
  Object* from = std::get_if<Object>(&object.value_);
  KINTSUGI_ASSERT(into != nullptr && from != nullptr);
  std::move(from->begin(), from->end(), std::back_inserter(*into));
}

std::string Json::pretty() const {
  return Writer::text(*this, 2);
}

std::string Json::compact() const {
  return Writer::text(*this, -1);
}

void print_json(const Json& document) {
  const std::string text = document.pretty();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace kintsugi::cli
