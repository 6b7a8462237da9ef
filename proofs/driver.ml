(* Worlds from standard input through the extracted model, one line each; what it comes to on standard output.

   A world: people k cohort_size intake percent delay known least steps (an intake is so many, and so many percent of those
   who have entered; rows are dropped for who knows so many windows, 0: none are, and must be left so many people), then of each step: its end and whether it is a closing one; then
   of each step and each person: how many rows, and of each the end of its own window and its number; then how many
   answers of founding, each: step, person, number; then of merging, each: step, founding step, number, group.

   Of each step: homes of people (step.number or -), pool as it asked (or -), counts as it asked, groups, rows out
   (person:group:row), rejected, waiting. *)
open Model

let people_of n = List.init n (fun p -> p)

let () =
  let rec worlds () =
    match input_line stdin with
    | exception End_of_file -> ()
    | line ->
      let words = ref (List.map int_of_string (String.split_on_char ' ' line)) in
      let next () = match !words with w :: rest -> words := rest; w | [] -> failwith "a short line" in
      let read n f = List.init n (fun _ -> f ()) in
      let n = next () in
      let k = next () in let size = next () in let least = next () in let percent = next () in
      let intake entered = max least ((percent * entered + 99) / 100) in let delay = next () in
      let known = next () in let left = next () in
      let steps = next () in
      let ends = Array.make (steps + 1) 0 and closing = Array.make (steps + 1) false in
      for s = 1 to steps do ends.(s) <- next (); closing.(s) <- next () = 1 done;
      let rows = Array.make_matrix (steps + 1) n [] in
      for s = 1 to steps do
        for p = 0 to n - 1 do
          let many = next () in
          rows.(s).(p) <- read many (fun () -> let own = next () in let id = next () in (own, id))
        done
      done;
      let many = next () in
      let founded = read many (fun () -> let s = next () in let p = next () in ((s, p), next ())) in
      let many = next () in
      let merged =
        read many (fun () -> let s = next () in let a = next () in let b = next () in ((s, (a, b)), next ())) in
      let current = ref 0 and asked_found = ref "-" and asked_merge = ref "-" in
      let shown = String.concat "," in
      let found s pool p =
        (* What was decided in a step before is asked again when it is looked at. *)
        if s = !current then asked_found := shown (List.map (fun q -> string_of_int (Obj.magic q)) pool);
        match List.assoc_opt (s, Obj.magic p) founded with Some c -> c | None -> 0 in
      let merge s homes last counts c =
        let cohort (a, b) = Printf.sprintf "%d.%d" a b in
        let home = function Some c -> cohort c | None -> "-" in
        asked_merge :=
          shown (List.map home (Obj.magic homes)) ^ "|" ^
          shown (List.map (fun (c, g) -> Printf.sprintf "%s=%d" (cohort c) g) (Obj.magic last)) ^ "|" ^
          shown (List.map (fun (c, (r, a)) -> Printf.sprintf "%s=%d/%d" (cohort c) r a) (Obj.magic counts));
        match List.assoc_opt (s, Obj.magic c) merged with Some g -> g | None -> 0 in
      let all = List.map Obj.magic (people_of n) in
      (* Everything is asked often, and answered once. *)
      let once f =
        let told = Hashtbl.create 8 in
        fun x ->
          match Hashtbl.find_opt told x with
          | Some answer -> answer
          | None -> let answer = f x in Hashtbl.add told x answer; answer in
      let rule = windows_known all left known in
      let decided = Hashtbl.create 8 in
      let decide recalled s home here =
        match Hashtbl.find_opt decided s with
        | Some answer -> answer
        | None ->
          let home = once home and here = once here in
          let books, goes = rule.decide recalled s home here in
          let goes = once (fun (p, r) -> goes p r) in
          let answer = (Obj.magic (once (Obj.magic books)), fun p r -> goes (p, r)) in
          Hashtbl.add decided s answer; answer in
      let drop = { rule with decide } in
      let state = ref (fresh drop) in
      let told = Buffer.create 256 in
      for s = 1 to steps do
        current := s; asked_found := "-"; asked_merge := "-";
        let made =
          run_step all k size intake delay (fun s -> ends.(s)) (fun s -> closing.(s)) found merge drop !state s
            (fun p -> Obj.magic rows.(s).(Obj.magic p)) in
        let kept f = let known = Array.of_list (List.map f all) in fun p -> known.(Obj.magic p) in
        let after = made.after in
        state := { after with home = kept after.home; was_seen = kept after.was_seen; waits = kept after.waits };
        let homes, groups = made.public in
        let rows_of f = shown (List.concat_map (fun p -> List.map (fun (_, id) ->
          Printf.sprintf "%d:%d" (Obj.magic p) (Obj.magic id)) (f p)) all) in
        let out = shown (List.concat_map (fun p -> List.map (fun (g, (_, id)) ->
          Printf.sprintf "%d:%d:%d" (Obj.magic p) g (Obj.magic id)) (made.out p)) all) in
        let home = function Some (a, b) -> Printf.sprintf "%d.%d" a b | None -> "-" in
        let group = match groups with
          | None -> "-"
          | Some g -> shown (List.map (fun (c, g) -> home (Some c) ^ "=" ^ string_of_int g) g) in
        Buffer.add_string told
          (String.concat ";" [shown (List.map home homes); (if groups = None then "-" else !asked_found); !asked_merge; group; out;
                              rows_of made.rejected; rows_of after.waits]);
        if s < steps then Buffer.add_char told ' '
      done;
      print_endline (Buffer.contents told);
      worlds ()
  in
  worlds ()
