#include "run/safetensors.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <stdexcept>
#include <string_view>

#include "files/durable_files.h"
#include "files/file_descriptor.h"
#include "files/json.h"

namespace ssa {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::pair<const char*, torch::ScalarType> kDtypes[] = {
    {"F64", torch::kFloat64},   {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
    {"BF16", torch::kBFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
    {"I16", torch::kInt16},     {"I8", torch::kInt8},     {"U8", torch::kUInt8},
    {"BOOL", torch::kBool}};

// Of the format, but of no use here.
constexpr std::string_view kOtherDtypes[] = {"F4",      "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3",
                                             "F8_E8M0", "U16",     "U32",     "U64",     "C64"};

// The format's own limit: a longer header is a broken file, not a large model.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error(fmt::format("{}: broken safetensors file: {}", file.string(), what));
}

struct Entry {
  std::string name;
  torch::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;
};

/// One header entry, checked on its own: its byte range must have the size of its shape.
Entry parse_entry(const std::filesystem::path& file, const std::string& name, const Json& value) {
  Entry entry{name, torch::kFloat32, {}, 0, 0};
  std::array<std::uint64_t, 2> offsets{};
  std::string dtype;
  try {
    dtype = value.at("dtype").get<std::string>();
    const Json& shape = value.at("shape");
    const Json& range = value.at("data_offsets");
    const auto whole = [](const Json& number) { return number.is_number_unsigned(); };
    if (!shape.is_array() || !std::ranges::all_of(shape, whole)) {
      refuse(file, fmt::format("shape of \"{}\" is not a list of whole numbers", name));
    }
    if (!range.is_array() || range.size() != 2 || !std::ranges::all_of(range, whole)) {
      refuse(file, fmt::format("data_offsets of \"{}\" are not two whole numbers", name));
    }
    entry.shape = shape.get<std::vector<std::int64_t>>();
    offsets = range.get<std::array<std::uint64_t, 2>>();
  } catch (const Json::exception&) {
    refuse(file, fmt::format("the entry of \"{}\" lacks dtype, shape or data_offsets", name));
  }
  const auto* known =
      std::ranges::find_if(kDtypes, [&](const auto& d) { return dtype == d.first; });
  if (known == std::end(kDtypes)) {
    if (std::ranges::find(kOtherDtypes, dtype) != std::end(kOtherDtypes)) {
      throw std::runtime_error(fmt::format(
          "{}: \"{}\" is of dtype {}, which is not read here: save it as F32, BF16 or F16",
          file.string(), name, dtype));
    }
    refuse(file, fmt::format("dtype {} of \"{}\" is not known", dtype, name));
  }
  entry.dtype = known->second;
  entry.begin = offsets[0];
  entry.end = offsets[1];
  std::uint64_t bytes = c10::elementSize(entry.dtype);
  for (const std::int64_t size : entry.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      refuse(file, fmt::format("shape of \"{}\" is too large", name));
    }
  }
  if (entry.begin > entry.end || entry.end - entry.begin != bytes) {
    refuse(file, fmt::format("\"{}\" has data_offsets [{}, {}], but its shape takes {} bytes", name,
                             entry.begin, entry.end, bytes));
  }
  return entry;
}

/// The parser keeps the last of keys that stand there twice, so they are counted while it reads.
Json parse_header(const std::filesystem::path& file, const std::string& text) {
  std::vector<std::set<std::string>> open;  // the keys of the objects that are not closed yet
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      if (!open.back().insert(key).second && twice.empty()) twice = key;
    }
    return true;
  };
  Json header;
  try {
    header = parse_json<Json>(text, watch);
  } catch (const std::invalid_argument& error) {
    refuse(file, fmt::format("its header: {}", error.what()));
  }
  if (!header.is_object()) refuse(file, "its header is not a JSON object");
  if (!twice.empty()) refuse(file, fmt::format("its header has \"{}\" twice", twice));
  return header;
}

/// A file, read up to the end of its header.
struct Header {
  FileDescriptor in;
  Json values;
  std::uint64_t data_bytes = 0;  ///< that follow
};

Header read_header(const std::filesystem::path& file) {
  Header out{.in = open_to_read(file), .values = {}};
  const auto fill = [&](void* memory, std::uint64_t bytes) {
    return read_some(out.in, memory, bytes, file.string()) == bytes;
  };
  const std::uint64_t file_bytes = std::filesystem::file_size(file);
  std::uint64_t header_bytes = 0;
  if (!fill(&header_bytes, sizeof(header_bytes))) {
    refuse(file, fmt::format("it has {} bytes, fewer than a header", file_bytes));
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > file_bytes - sizeof(header_bytes)) {
    refuse(file,
           fmt::format("its header claims {} bytes, the file has {}", header_bytes, file_bytes));
  }
  std::string text(header_bytes, '\0');
  if (!fill(text.data(), header_bytes)) refuse(file, "its header cannot be read");
  out.values = parse_header(file, text);
  out.data_bytes = file_bytes - sizeof(header_bytes) - header_bytes;
  return out;
}

std::map<std::string, std::string> metadata_of(const Json& header,
                                               const std::filesystem::path& file) {
  std::map<std::string, std::string> metadata;
  const Json values = header.value("__metadata__", Json::object());
  if (!values.is_object()) refuse(file, "__metadata__ is not an object");
  for (const auto& [key, item] : values.items()) {
    if (!item.is_string()) refuse(file, fmt::format("__metadata__.{} is not a string", key));
    metadata[key] = item.get<std::string>();
  }
  return metadata;
}

}  // namespace

torch::Tensor TensorFile::find(const std::string& name) const {
  const auto found = std::ranges::find_if(tensors, [&](const auto& t) { return t.first == name; });
  return found == tensors.end() ? torch::Tensor() : found->second;
}

void write_safetensors(const std::filesystem::path& file, const TensorFile& content) {
  // Widest types first keeps every tensor aligned to its element size.
  auto tensors = content.tensors;
  std::ranges::stable_sort(tensors, [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  Json header = Json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::uint64_t offset = 0;
  for (auto& [name, tensor] : tensors) {
    const auto* dtype = std::ranges::find_if(
        kDtypes, [&](const auto& d) { return tensor.scalar_type() == d.second; });
    if (dtype == std::end(kDtypes)) {
      throw std::runtime_error(
          fmt::format("{}: tensor \"{}\" is of type {}, which safetensors lacks", file.string(),
                      name, c10::toString(tensor.scalar_type())));
    }
    tensor = tensor.detach().cpu().contiguous();
    const std::uint64_t end = offset + tensor.nbytes();
    header[name] = {
        {"dtype", dtype->first}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();

  std::filesystem::remove(file);
  FileWriter out(file, FileWriter::Start::new_file);
  out.write(&length, sizeof(length));
  out.write(text);
  for (const auto& [name, tensor] : tensors) out.write(tensor.const_data_ptr(), tensor.nbytes());
  out.sync();
}

std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& file) {
  return metadata_of(read_header(file).values, file);
}

TensorFile read_safetensors(const std::filesystem::path& file) {
  const Header header = read_header(file);
  TensorFile content{.tensors = {}, .metadata = metadata_of(header.values, file)};
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.values.items()) {
    if (name != "__metadata__") entries.push_back(parse_entry(file, name, value));
  }
  std::ranges::stable_sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      refuse(file, fmt::format("\"{}\" begins at byte {} of the data, not at {}", entry.name,
                               entry.begin, expected));
    }
    expected = entry.end;
  }
  if (expected != header.data_bytes) {
    refuse(file,
           fmt::format("its tensors take {} bytes, but it holds {}", expected, header.data_bytes));
  }
  for (const Entry& entry : entries) {
    torch::Tensor tensor = torch::empty(entry.shape, entry.dtype);
    const std::uint64_t bytes = entry.end - entry.begin;
    if (read_some(header.in, tensor.mutable_data_ptr(), bytes, file.string()) != bytes) {
      refuse(file, fmt::format("the data of \"{}\" cannot be read", entry.name));
    }
    content.tensors.emplace_back(entry.name, tensor);
  }
  return content;
}

}  // namespace ssa
